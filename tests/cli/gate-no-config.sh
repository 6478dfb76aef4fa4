# A configuration that is not there.
opgap gate --config nosuch
