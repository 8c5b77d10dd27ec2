"""What is known of releases, builds, drivers and devices, from the files of rules/compat."""
