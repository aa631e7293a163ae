# Arithmetic.  The file of an instruction set is built with that set's flags,
# as a library of one object; libkernels.a takes the objects in, so that
# programs link one archive: libkernels.a libformat.a libbase.a.
noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = \
	%reldir%/kernels.h %reldir%/kernels_impl.h \
	%reldir%/kernels.c %reldir%/kernels_ref.c %reldir%/kernels_mxfp4.c \
	%reldir%/math.h %reldir%/math.c \
	%reldir%/team.h %reldir%/team.c
libkernels_a_LIBADD =

if X86
noinst_LIBRARIES += libkernels_avx2.a libkernels_avx512.a
libkernels_avx2_a_SOURCES = %reldir%/kernels_avx2.c %reldir%/kernels_body.h
libkernels_avx2_a_CFLAGS = $(AM_CFLAGS) -mavx2 -mfma -mf16c
libkernels_avx512_a_SOURCES = %reldir%/kernels_avx512.c %reldir%/kernels_body.h
libkernels_avx512_a_CFLAGS = $(libkernels_avx2_a_CFLAGS) \
	-mavx512f -mavx512bw -mavx512vl -mavx512dq
libkernels_a_LIBADD += $(libkernels_avx2_a_OBJECTS) \
	$(libkernels_avx512_a_OBJECTS)
endif
if ARM64
noinst_LIBRARIES += libkernels_neon.a
libkernels_neon_a_SOURCES = %reldir%/kernels_neon.c %reldir%/kernels_body.h
libkernels_a_LIBADD += $(libkernels_neon_a_OBJECTS)
endif

# Not -l libraries but objects: to be built before the archive.
libkernels_a_DEPENDENCIES = $(libkernels_a_LIBADD)
