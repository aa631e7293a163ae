# The program lode.
noinst_LIBRARIES += libconvert.a
libconvert_a_SOURCES = \
	%reldir%/members.c %reldir%/members.h \
	%reldir%/safetensors.c %reldir%/safetensors.h \
	%reldir%/folder.c %reldir%/folder.h \
	%reldir%/notes.c %reldir%/notes.h \
	%reldir%/weight_map.c %reldir%/weight_map.h \
	%reldir%/checkpoint.c %reldir%/checkpoint.h \
	%reldir%/naming.c %reldir%/naming.h %reldir%/naming_kimi.c \
	%reldir%/vocabulary.c %reldir%/vocabulary.h \
	%reldir%/origin.c %reldir%/origin.h \
	%reldir%/plan.c %reldir%/plan.h \
	%reldir%/source_hash.c %reldir%/source_hash.h \
	%reldir%/choice.c %reldir%/choice.h \
	%reldir%/flow.c %reldir%/flow.h \
	%reldir%/window.c %reldir%/window.h \
	%reldir%/values.c %reldir%/values.h \
	%reldir%/diff.c %reldir%/diff.h \
	%reldir%/supply.c %reldir%/supply.h \
	%reldir%/repair.c %reldir%/repair.h \
	%reldir%/check.c %reldir%/check.h \
	%reldir%/input.c %reldir%/input.h \
	%reldir%/consume.c %reldir%/consume.h \
	%reldir%/identity.c %reldir%/identity.h \
	%reldir%/leftover.c %reldir%/leftover.h \
	%reldir%/trace.c %reldir%/trace.h \
	%reldir%/repack.c %reldir%/repack.h %reldir%/repack_plan.h \
	%reldir%/repack_prune.c %reldir%/repack_run.c \
	%reldir%/pipeline.c %reldir%/pipeline.h \
	%reldir%/estimate.c %reldir%/estimate.h %reldir%/estimate_plan.c \
	%reldir%/estimate_repack.c %reldir%/measure.c %reldir%/measure.h \
	%reldir%/cmd_forecast.c %reldir%/cmd_forecast.h \
	%reldir%/summary.c %reldir%/summary.h \
	%reldir%/places.c %reldir%/places.h \
	%reldir%/restore.c %reldir%/restore.h

bin_PROGRAMS += lode
lode_SOURCES = \
	%reldir%/main.c %reldir%/cmd.h \
	%reldir%/cmd_convert.c %reldir%/cmd_info.c \
	%reldir%/cmd_verify.c %reldir%/cmd_extract.c %reldir%/cmd_repack.c \
	%reldir%/cmd_diff.c %reldir%/cmd_diff.h \
	%reldir%/cmd_repair.c %reldir%/cmd_statement.c
lode_CPPFLAGS = $(AM_CPPFLAGS) -DLODE_BINDIR='"$(bindir)"'
lode_LDADD = libconvert.a libformat.a libbase.a $(JANSSON_LIBS) \
	$(XXHASH_LIBS) $(ZSTD_LIBS) $(CRYPTO_LIBS)
