opgap record --log info --
