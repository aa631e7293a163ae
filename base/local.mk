noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	%reldir%/checked.h %reldir%/le.h \
	%reldir%/error.c %reldir%/error.h \
	%reldir%/mem.c %reldir%/mem.h \
	%reldir%/file.c %reldir%/file.h \
	%reldir%/json.c %reldir%/json.h \
	%reldir%/cli.c %reldir%/cli.h
