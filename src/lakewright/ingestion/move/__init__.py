"""Moving in and copying: directories of data files, or tables, in; a table with exactly their rows out.

    listing     a directory in, its data files and the values of their partitions out
    footers     one data file in; its rows, columns and statistics out
    reconcile   the columns of all files in, the schemas of one table out
    migrate     files become a table without being copied
    copy        the files of one snapshot become another table

Always holds: everything that can be wrong with files is found before the first of them is touched, and a file of the
user loses its old name only after a snapshot that names it under its new one is published.
"""
