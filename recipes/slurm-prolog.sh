#!/bin/bash
# A Slurm prolog (Prolog= in slurm.conf, root, each node of a job before its first step). Slurm drains the node and requeues the job where
# this exits with another code than 0, so only what is certainly broken does: exit code 1 of envcheck, and not 3, which is "cannot tell".
# --static imports no torch and takes a fraction of a second. The site's expectations stand in the file that --config names.
envcheck=${ENVCHECK:-/opt/envcheck/bin/envcheck}
config=${ENVCHECK_CONFIG:-/etc/envcheck.toml}
report=$(timeout 60 "$envcheck" --static --quiet --config "$config" --python "${ENVCHECK_PYTHON:-/usr/bin/python3}" 2>&1)
code=$?
case $code in
  0) exit 0 ;;
  1) echo "print envcheck: $(tail -n 1 <<<"$report")"; logger -t envcheck -- "$report" 2>/dev/null; exit 1 ;;
  *) logger -t envcheck -- "exit code $code: $(tail -n 1 <<<"$report")" 2>/dev/null; exit 0 ;;
esac
