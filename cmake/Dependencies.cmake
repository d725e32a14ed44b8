# Third-party targets. The distribution's packages come through their own CMake files or pkg-config;
# onnx, ONNX Runtime and the Google protos come from GQ_DEPS_DIR, which tools/setup fills.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(Eigen3 CONFIG REQUIRED)
find_package(Boost 1.81 CONFIG REQUIRED COMPONENTS headers)
find_package(OpenSSL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)

if(GQ_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
  find_package(benchmark CONFIG)
endif()

# gq_imported(<name> LIBRARY <file> [INCLUDE <folder>] [LINK <targets>])
# One library file as target gq::<name>; its headers count as system headers.
function(gq_imported name)
  cmake_parse_arguments(arg "" "LIBRARY;INCLUDE" "LINK" ${ARGN})
  add_library(gq::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(gq::${name} PROPERTIES IMPORTED_LOCATION "${arg_LIBRARY}")
  if(arg_INCLUDE)
    target_include_directories(gq::${name} SYSTEM INTERFACE "${arg_INCLUDE}")
  endif()
  if(arg_LINK)
    target_link_libraries(gq::${name} INTERFACE ${arg_LINK})
  endif()
endfunction()

# libzip's CMake file refers to programs of a package that nobody needs, hence pkg-config.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET GLOBAL libzip)
add_library(gq::libzip ALIAS PkgConfig::LIBZIP)

# Service notification; gq runs without it where there is no systemd.
pkg_check_modules(SYSTEMD IMPORTED_TARGET GLOBAL libsystemd)
if(TARGET PkgConfig::SYSTEMD)
  add_library(gq::systemd ALIAS PkgConfig::SYSTEMD)
endif()

find_library(GQ_SQLITECPP_LIBRARY SQLiteCpp REQUIRED)
gq_imported(sqlitecpp LIBRARY "${GQ_SQLITECPP_LIBRARY}"
  LINK SQLite::SQLite3 Threads::Threads ${CMAKE_DL_LIBS})

# --- From tools/setup -------------------------------------------------------------------------
foreach(needed IN ITEMS onnx/lib/libonnx.a onnxruntime/include/onnxruntime_c_api.h
    onnxruntime/lib google-protos/google/rpc/status.proto)
  if(NOT EXISTS "${GQ_DEPS_DIR}/${needed}")
    message(FATAL_ERROR "${GQ_DEPS_DIR}/${needed} is missing. Run tools/setup first.")
  endif()
endforeach()

# The protos, checker, shape inference, version converter and text parser of onnx.
gq_imported(onnx_proto LIBRARY "${GQ_DEPS_DIR}/onnx/lib/libonnx_proto.a"
  INCLUDE "${GQ_DEPS_DIR}/onnx/include" LINK protobuf::libprotobuf)
gq_imported(onnx LIBRARY "${GQ_DEPS_DIR}/onnx/lib/libonnx.a" LINK gq::onnx_proto)
target_compile_definitions(gq::onnx_proto INTERFACE ONNX_NAMESPACE=onnx ONNX_ML=1)

# ONNX Runtime is opened at run time; only its C headers are compiled against.
add_library(gq_onnxruntime_headers INTERFACE)
add_library(gq::onnxruntime_headers ALIAS gq_onnxruntime_headers)
target_include_directories(gq_onnxruntime_headers SYSTEM INTERFACE
  "${GQ_DEPS_DIR}/onnxruntime/include")
target_link_libraries(gq_onnxruntime_headers INTERFACE ${CMAKE_DL_LIBS})

# The library that the programs open by default lies in lib/ beside bin/, in an installed tree in
# lib/gq/ so that no other program finds it by accident.
file(GLOB GQ_ONNXRUNTIME_LIBRARY "${GQ_DEPS_DIR}/onnxruntime/lib/libonnxruntime.so.*")
list(GET GQ_ONNXRUNTIME_LIBRARY 0 GQ_ONNXRUNTIME_LIBRARY)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
file(CREATE_LINK "${GQ_ONNXRUNTIME_LIBRARY}" "${CMAKE_BINARY_DIR}/lib/libonnxruntime.so" SYMBOLIC)
install(FILES "${GQ_ONNXRUNTIME_LIBRARY}" DESTINATION lib/gq RENAME libonnxruntime.so)
