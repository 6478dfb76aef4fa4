# Read by cpack for each kind of package.
if(CPACK_GENERATOR STREQUAL "TGZ")
  # one archive of everything, with the licence on top
  set(CPACK_MONOLITHIC_INSTALL ON)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/archive.cmake)
endif()
