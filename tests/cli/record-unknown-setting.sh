OPGAP_HOKS=io opgap record -- echo must not run
