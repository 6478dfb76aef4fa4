# An archive does not come with Debian's common licences.
file(COPY ${CPACK_RESOURCE_FILE_LICENSE} DESTINATION ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
