# The compiler's surroundings: cache, linker, sanitizers. Nothing here is needed for correctness.

# --- Compiler cache ---------------------------------------------------------------------------
# Paths are made relative to the source tree and the build folder's name is left out of the hash,
# so that every build folder beside build/ shares its hits. Precompiled headers need the sloppiness
# (and -fpch-preprocess, which gq_library adds).
find_program(GQ_CCACHE ccache)
if(GQ_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(gq_launcher "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros "${GQ_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER ${gq_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${gq_launcher})
endif()

# --- Linker -----------------------------------------------------------------------------------
find_program(GQ_MOLD mold)
find_program(GQ_LLD NAMES ld.lld ld.lld-14)
# Programs load only the libraries that they use, which shortens every start.
add_link_options(-Wl,--as-needed)
if(CMAKE_CROSSCOMPILING)
  # The cross compiler brings its own.
elseif(GQ_SANITIZE MATCHES "fuzzer" AND GQ_LLD)
  add_link_options("-fuse-ld=${GQ_LLD}")
elseif(GQ_MOLD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options("-fuse-ld=${GQ_MOLD}")
  else()
    add_link_options(-fuse-ld=mold)
  endif()
elseif(GQ_LLD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_link_options("-fuse-ld=${GQ_LLD}")
  elseif(EXISTS /usr/bin/ld.lld)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# --- Sanitizers -------------------------------------------------------------------------------
if(GQ_SANITIZE)
  string(REPLACE "fuzzer" "fuzzer-no-link" gq_sanitize_flags "${GQ_SANITIZE}")
  add_compile_options("-fsanitize=${gq_sanitize_flags}")
  add_link_options("-fsanitize=${gq_sanitize_flags}")
  if(GQ_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
    # vptr checks need the type information of libraries that were built without it.
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()
