"""What every benchmark uses: a database server, reports, synthetic sessions and log samples."""
