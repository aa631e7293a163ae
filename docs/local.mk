# Documents.
