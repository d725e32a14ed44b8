# How parts of the product are declared.
#
#   gq_library(<part> [DEPS <targets>] [SOURCES <files>] [PCH <set or heavy headers>])
#       Static library gq_<part>, alias gq::<part>, of all *.cc of its folder but main.cc and
#       *_main.cc. Header-only folders become interface libraries. Dependencies are public.
#       PCH names a set of precompiled headers that several parts share (gq_precompiled below), or
#       the headers of one for this part alone.
#   gq_program(<name> SOURCES <files> [DEPS <targets>])
#       Program <name> in bin/.
#   gq_test(<part> [DEPS <targets>] [SOURCES <files>] [PCH <headers>] [LABEL <label>]
#           [TIMEOUT <seconds>] [SERIAL])
#       Test program gq_<part>_test of all *_test.cc of its folder and the SOURCES; ctest finds each
#       case. Tests run in the root of the source tree; GQ_BIN_DIR names the folder of the programs.
#       The label is the folder's: integration, faults, unit-engine (what gq_engine_tests builds) or
#       unit.
#   gq_fuzz(<name> SOURCES <files> CORPUS <folder> MUTATIONS <count> [DEPS <targets>])
#       libFuzzer target gq_<name>_fuzz in the fuzz preset. With other sanitizers a test that reads
#       the corpus and so many random changes of it.
#   gq_bench(<name> SOURCES <files> [DEPS <targets>])
#       Google Benchmark program gq_<name>_bench, where the library is installed.
#
# Which part may use which is the table below; a dependency that it does not allow stops the
# configuration.

# --- Direction of dependencies -----------------------------------------------------------------
# gq_layer(<part> <parts it may use directly>...). A part may always use itself.
macro(gq_layer part)
  set(GQ_MAY_USE_${part} ${part} ${ARGN})
endmacro()

set(gq_engine base graph runtime calibrate quantize accuracy explore compile)

gq_layer(base)
gq_layer(proto)
gq_layer(graph base)
gq_layer(runtime base graph)
gq_layer(calibrate base graph runtime)
gq_layer(quantize base graph runtime calibrate)
gq_layer(accuracy base graph runtime calibrate quantize)
gq_layer(explore base graph runtime calibrate quantize accuracy)
gq_layer(compile base graph)
gq_layer(harness base)
gq_layer(rpc base proto)
gq_layer(job base proto)
gq_layer(report base proto)
# The server opens no model, so it has no way to the engine.
gq_layer(server base proto rpc job report)
gq_layer(worker ${gq_engine} proto harness rpc job report)
gq_layer(agent ${gq_engine} proto harness rpc job report)
gq_layer(cli ${gq_engine} proto rpc job report)
gq_layer(tools ${gq_engine} proto rpc job report)
# Tests may use everything.

# The part that a folder belongs to, empty where the direction is not checked.
function(gq_part_of_folder folder result)
  file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}" "${folder}")
  set(part "")
  if(path MATCHES "^common/([a-z_]+)")
    set(part "${CMAKE_MATCH_1}")
  elseif(path MATCHES "^proto")
    set(part proto)
  elseif(path MATCHES "^server/worker")
    set(part worker)
  elseif(path MATCHES "^server")
    set(part server)
  elseif(path MATCHES "^board_agent")
    set(part agent)
  elseif(path MATCHES "^client/cli")
    set(part cli)
  elseif(path MATCHES "^tools")
    set(part tools)
  endif()
  set(${result} "${part}" PARENT_SCOPE)
endfunction()

# Stops the configuration when `target`, declared in the current folder, may not use one of `deps`.
# A dependency that is declared later is checked when the whole tree is known.
function(gq_check_direction target)
  gq_part_of_folder("${CMAKE_CURRENT_SOURCE_DIR}" part)
  if(part STREQUAL "")
    return()
  endif()
  if(NOT DEFINED GQ_MAY_USE_${part})
    message(FATAL_ERROR "${target}: the part '${part}' has no gq_layer line in GqTargets.cmake.")
  endif()
  foreach(dep IN LISTS ARGN)
    if(dep MATCHES "^gq(::|_)")
      set_property(GLOBAL APPEND PROPERTY GQ_EDGES "${target}|${part}|${dep}")
    endif()
  endforeach()
endfunction()

function(gq_check_all_edges)
  get_property(edges GLOBAL PROPERTY GQ_EDGES)
  foreach(edge IN LISTS edges)
    string(REPLACE "|" ";" edge "${edge}")
    list(GET edge 0 target)
    list(GET edge 1 part)
    list(GET edge 2 dep)
    if(NOT TARGET ${dep})
      message(FATAL_ERROR "${target} depends on ${dep}, which no part declares.")
    endif()
    get_target_property(dep_part ${dep} GQ_PART)
    if(dep_part AND NOT dep_part IN_LIST GQ_MAY_USE_${part})
      list(JOIN GQ_MAY_USE_${part} ", " allowed)
      message(FATAL_ERROR "${target} (part '${part}') may not depend on ${dep} (part "
        "'${dep_part}'). Allowed: ${allowed}. See cmake/GqTargets.cmake.")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL gq_check_all_edges)

# --- Flags of our own code ---------------------------------------------------------------------
add_library(gq_options INTERFACE)
target_include_directories(gq_options INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(gq_options INTERFACE GQ_VERSION="${PROJECT_VERSION}")
target_compile_options(gq_options INTERFACE
  -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual -Wvla -Wextra-semi
  # Designated initializers leave members at their defaults on purpose.
  -Wno-missing-field-initializers)
if(GQ_WARNINGS_AS_ERRORS)
  target_compile_options(gq_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gq_options INTERFACE
    # GCC 12 warns about std::string's own operator+ (GCC bug 105651).
    -Wno-restrict
    # Flow analysis that depends on the optimizer's mood: shown, but no error.
    -Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=stringop-overflow
    -Wno-error=stringop-overread -Wno-error=free-nonheap-object)
else()
  target_compile_options(gq_options INTERFACE -Wthread-safety)
endif()

# What programs built with a sanitizer ask of it, whoever starts them.
if(GQ_SANITIZE)
  add_library(gq_sanitizer_options OBJECT "${CMAKE_SOURCE_DIR}/cmake/sanitizer_options.cc")
endif()

function(gq_executable_of_own_code target)
  gq_own_code(${target} ${ARGN})
  if(GQ_SANITIZE)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:gq_sanitizer_options>)
  endif()
endfunction()

function(gq_own_code target)
  target_link_libraries(${target} PRIVATE gq_options)
  cmake_parse_arguments(arg "" "" "PCH" ${ARGN})
  if(arg_PCH AND NOT GQ_SANITIZE MATCHES "fuzzer")
    if(TARGET "gq_pch_${arg_PCH}")
      target_precompile_headers(${target} REUSE_FROM gq_pch_${arg_PCH})
    else()
      target_precompile_headers(${target} PRIVATE ${arg_PCH})
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)
    else()
      target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endfunction()

# --- Shared precompiled headers ----------------------------------------------------------------
# gq_precompiled(<set> DEPS <targets> HEADERS <headers>): headers of libraries that most files of
# several parts read; parsing them takes the larger half of a compiler's run. Never headers of ours,
# but those that protoc makes of the contract, which are large and change seldom.
# EXECUTABLE: for programs and tests, whose code is compiled with -fPIE.
function(gq_precompiled set)
  if(GQ_SANITIZE MATCHES "fuzzer")
    return()
  endif()
  cmake_parse_arguments(arg "EXECUTABLE" "" "DEPS;HEADERS" ${ARGN})
  add_library(gq_pch_${set} OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled.cc")
  if(arg_EXECUTABLE)
    set_target_properties(gq_pch_${set} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(gq_pch_${set} PRIVATE -fPIE)
  endif()
  target_link_libraries(gq_pch_${set} PRIVATE ${arg_DEPS})
  gq_own_code(gq_pch_${set} PCH ${arg_HEADERS})
endfunction()

set(gq_standard_headers <algorithm> <cmath> <cstdint> <filesystem> <functional> <limits> <map>
  <memory> <optional> <set> <span> <string> <string_view> <unordered_map> <unordered_set> <utility>
  <vector> <absl/status/statusor.h> <nlohmann/json.hpp>)
set(gq_engine_headers ${gq_standard_headers} <onnx/onnx_pb.h>)
set(gq_contract_headers <gq/v1/agent_service.pb.h> <gq/v1/board_service.pb.h>
  <gq/v1/job_service.pb.h>)
set(gq_service_headers ${gq_standard_headers} <absl/synchronization/mutex.h> <absl/time/time.h>
  <CLI/App.hpp> <grpcpp/grpcpp.h> ${gq_contract_headers})
set(gq_json_dependencies absl::status absl::statusor nlohmann_json::nlohmann_json)
set(gq_service_dependencies ${gq_json_dependencies} gq::proto CLI11::CLI11 gRPC::grpc++)
gq_precompiled(engine DEPS ${gq_json_dependencies} gq::onnx HEADERS ${gq_engine_headers})
gq_precompiled(service DEPS ${gq_service_dependencies} HEADERS ${gq_service_headers})
# Programs that work on models for the service.
gq_precompiled(step DEPS ${gq_json_dependencies} gq::onnx gq::proto absl::time
  HEADERS ${gq_engine_headers} <absl/time/time.h> ${gq_contract_headers})
if(GQ_BUILD_TESTS)
  gq_precompiled(engine_test EXECUTABLE DEPS ${gq_json_dependencies} gq::onnx GTest::gmock
    HEADERS ${gq_engine_headers} <gmock/gmock.h> <gtest/gtest.h>)
  gq_precompiled(service_test EXECUTABLE DEPS ${gq_service_dependencies} GTest::gmock
    HEADERS ${gq_service_headers} <gmock/gmock.h> <gtest/gtest.h>)
endif()

# The unit tests of the engine, which CI also runs under the sanitizers.
add_custom_target(gq_engine_tests)

# --- Declarations ------------------------------------------------------------------------------
# Sets `result` when a dependency of `target` is not declared (yet) and GQ_SKIP_INCOMPLETE says to
# leave such targets out. Without it, gq_check_all_edges stops the configuration.
function(gq_incomplete target result)
  set(${result} FALSE PARENT_SCOPE)
  if(NOT GQ_SKIP_INCOMPLETE)
    return()
  endif()
  foreach(dep IN LISTS ARGN)
    if(dep MATCHES "^gq(::|_)" AND NOT TARGET ${dep})
      message(STATUS "Leaving out ${target}: it needs ${dep}, which is not declared")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

function(gq_library part)
  cmake_parse_arguments(arg "" "" "DEPS;SOURCES;PCH" ${ARGN})
  gq_incomplete(gq_${part} incomplete ${arg_DEPS})
  if(incomplete)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/([^/]*_)?main\\.cc$")
  list(APPEND sources ${arg_SOURCES})
  set(target gq_${part})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC ${arg_DEPS})
    gq_own_code(${target} PCH ${arg_PCH})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_DEPS})
  endif()
  add_library(gq::${part} ALIAS ${target})
  gq_part_of_folder("${CMAKE_CURRENT_SOURCE_DIR}" layer)
  set_target_properties(${target} PROPERTIES GQ_PART "${layer}")
  gq_check_direction(${target} ${arg_DEPS})
endfunction()

function(gq_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PCH" ${ARGN})
  gq_incomplete(${name} incomplete ${arg_DEPS})
  if(incomplete)
    return()
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE paths)
  file(GLOB present CONFIGURE_DEPENDS ${paths})
  if(GQ_SKIP_INCOMPLETE AND NOT present)
    message(STATUS "Leaving out ${name}: its sources are not in the tree")
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  gq_executable_of_own_code(${name} PCH ${arg_PCH})
  gq_part_of_folder("${CMAKE_CURRENT_SOURCE_DIR}" layer)
  set_target_properties(${name} PROPERTIES GQ_PART "${layer}")
  gq_check_direction(${name} ${arg_DEPS})
  if(NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/(tests|tools)(/|$)")
    install(TARGETS ${name} RUNTIME DESTINATION bin)
  endif()
endfunction()

function(gq_test part)
  if(NOT GQ_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "SERIAL" "LABEL;TIMEOUT" "DEPS;SOURCES;PCH" ${ARGN})
  gq_incomplete(gq_${part}_test incomplete ${arg_DEPS})
  if(incomplete)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc")
  if(NOT sources AND NOT arg_SOURCES)
    return()
  endif()
  if(NOT arg_LABEL)
    file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REGEX MATCH "^(integration|faults)" arg_LABEL "${path}")
    if(NOT arg_LABEL AND path MATCHES "^common/([a-z_]+)" AND CMAKE_MATCH_1 IN_LIST gq_engine)
      set(arg_LABEL unit-engine)
    elseif(NOT arg_LABEL)
      set(arg_LABEL unit)
    endif()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(target gq_${part}_test)
  add_executable(${target} ${sources} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPS} GTest::gmock GTest::gmock_main)
  gq_executable_of_own_code(${target} PCH ${arg_PCH})
  set(properties LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "GQ_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  if(arg_LABEL STREQUAL "unit-engine")
    add_dependencies(gq_engine_tests ${target})
  endif()
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX "${part}." DISCOVERY_MODE PRE_TEST
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTIES ${properties})
endfunction()

function(gq_fuzz name)
  if(NOT GQ_SANITIZE OR NOT GQ_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "CORPUS;MUTATIONS" "SOURCES;DEPS" ${ARGN})
  gq_incomplete(gq_${name}_fuzz incomplete ${arg_DEPS})
  if(incomplete)
    return()
  endif()
  set(target gq_${name}_fuzz)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPS})
  gq_executable_of_own_code(${target})
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS}")
  if(GQ_SANITIZE MATCHES "fuzzer")
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz.${name} COMMAND ${target} -runs=0 "${corpus}")
    set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
    return()
  endif()
  target_sources(${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests/fuzz/mutation_main.cc")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${folder}")
  add_test(NAME fuzz.${name} COMMAND ${target} "${corpus}" ${arg_MUTATIONS}
    WORKING_DIRECTORY "${folder}")
  set_tests_properties(fuzz.${name} PROPERTIES LABELS unit-engine TIMEOUT 120)
  add_dependencies(gq_engine_tests ${target})
endfunction()

function(gq_bench name)
  if(NOT GQ_BUILD_TESTS OR NOT TARGET benchmark::benchmark_main)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  gq_incomplete(gq_${name}_bench incomplete ${arg_DEPS})
  if(incomplete)
    return()
  endif()
  set(target gq_${name}_bench)
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPS} benchmark::benchmark_main)
  gq_executable_of_own_code(${target})
endfunction()

# --- The tree ----------------------------------------------------------------------------------
# Adds `folder` when it has a CMakeLists.txt; one that appears later is found without being asked.
function(gq_add_part folder)
  file(GLOB list CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt")
  if(list)
    add_subdirectory("${CMAKE_SOURCE_DIR}/${folder}" "${CMAKE_BINARY_DIR}/${folder}")
  endif()
endfunction()

# Adds every folder below `root` that has a CMakeLists.txt.
function(gq_add_test_tree root)
  include(GoogleTest)
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}"
    "${CMAKE_SOURCE_DIR}/${root}/CMakeLists.txt")
  foreach(list IN LISTS lists)
    get_filename_component(folder "${list}" DIRECTORY)
    add_subdirectory("${CMAKE_SOURCE_DIR}/${folder}" "${CMAKE_BINARY_DIR}/${folder}")
  endforeach()
endfunction()
