"""One round loop; where the rows live is the cohort's business. Internal: may change without notice."""
