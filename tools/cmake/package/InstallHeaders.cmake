# Copies headers into `TO`, so that they name each other <sluice/...>: inside the project they are written "schedules/...",
# which beside another project's headers might be another file. Run by `cmake --install`, which sets FROM, TO and HEADERS.
foreach(header IN LISTS HEADERS)
  file(READ ${FROM}/${header} content)
  string(REGEX REPLACE "#include \"((schedules|models|comm|pipeline|partitioner)/[^\"]*)\"" "#include <sluice/\\1>"
         content "${content}")
  # Written only where it changes, so that who uses it need not build again.
  set(installed "")
  if(EXISTS "${TO}/${header}")
    file(READ "${TO}/${header}" installed)
  endif()
  if(NOT installed STREQUAL content)
    file(WRITE "${TO}/${header}" "${content}")
  endif()
endforeach()
