# Tests of the converter and of the program lode.
EXTRA_DIST += %reldir%/fixtures %reldir%/models
