# What `cpack` makes of what `cmake --install` installs (run it in a build folder):
#   cpack -G DEB     sluice_*.deb (the program) and libsluice-dev_*.deb (libraries and headers)
#   cpack -G TGZ     sluice-*.tar.gz with all of it
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR "the sluice project")
set(CPACK_PACKAGE_CONTACT "the sluice project <maintainers@sluice.invalid>") # Debian's format asks for an address
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, schedule and train a model across pipeline stages")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL development program)
set(CPACK_THREADS 2)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME sluice)
# What the program is linked to, as dpkg-shlibdeps finds it. mpirun, and the demo's data, are asked for where they are needed.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
if(MPI_CXX_FOUND)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS openmpi-bin)
endif()
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "sluice draws, checks and optimises the timetables of pipeline-parallel training,
finds the best partition of a model with a proof of how far from the best possible
it can be, and trains with it.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsluice-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# What sluiceConfig.cmake looks for, by the names of Debian 12.
list(JOIN SLUICE_DEBIAN_PACKAGES ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "Static libraries and headers, for find_package(sluice COMPONENTS schedules planner
runtime) of CMake.")
include(CPack)
