noinst_LIBRARIES += libformat.a
libformat_a_SOURCES = \
	%reldir%/lode.h %reldir%/lode_write.h %reldir%/limits.h \
	%reldir%/role.h %reldir%/role.c \
	%reldir%/encoding.h %reldir%/encoding.c \
	%reldir%/layout.h %reldir%/layout.c \
	%reldir%/hash.h %reldir%/hash.c \
	%reldir%/digest.h %reldir%/digest.c \
	%reldir%/root.h %reldir%/root.c \
	%reldir%/rules.h %reldir%/rules.c %reldir%/directory.c \
	%reldir%/index.h %reldir%/index.c %reldir%/index_blocks.c \
	%reldir%/name.c %reldir%/pack.h \
	%reldir%/head.h %reldir%/head.c \
	%reldir%/pack.h %reldir%/pack.c %reldir%/unpack.c \
	%reldir%/frame.h %reldir%/frame.c %reldir%/filter.h %reldir%/filter.c \
	%reldir%/strings.h %reldir%/strings.c \
	%reldir%/output.h %reldir%/output.c \
	%reldir%/journal.h %reldir%/journal.c \
	%reldir%/reader_state.h %reldir%/reader.c %reldir%/reader_cold.c \
	%reldir%/writer_state.h %reldir%/writer.c %reldir%/writer_blocks.c \
	%reldir%/writer_finish.c %reldir%/verify_state.h \
	%reldir%/verify.c %reldir%/verify_index.c %reldir%/verify_blocks.c \
	%reldir%/verify_set.c %reldir%/mend.c
