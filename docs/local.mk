# Documents.
dist_noinst_DATA += %reldir%/format.md
