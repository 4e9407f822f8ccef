#!/usr/bin/env bash
# Jobs of `gpuplan fit --emit slurm` handed to Slurm itself: its own slurmctld, slurmd and munged, started here with one
# node whose GPUs are names for /dev/null and /dev/zero, plan where each job goes and run it. $GPUPLAN is the binary;
# Debian's slurm-wlm has the daemons. tools/run is replaced by a script that records what it was given.
set -euo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd sbatch scontrol sinfo; do
  command -v "$program" >/dev/null || { echo "no $program: Slurm is not installed (Debian's slurm-wlm)"; exit 77; }
done
root=$PWD
work=$(mktemp -d)
daemons=()
stop() {
  [ ${#daemons[@]} -eq 0 ] || kill "${daemons[@]}" 2>/dev/null || true
  [ ${#daemons[@]} -eq 0 ] || wait "${daemons[@]}" 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT

fail() {
  echo "FAIL  $1"
  tail -n 5 "$work"/*.log || true
  exit 1
}

node=$(hostname -s)
port=$((20000 + $$ % 20000))
mkdir "$work/state" "$work/spool" "$work/clone" "$work/clone/tools"
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 RealMemory=100 Gres=gpu:t4:1,gpu:a100-40gb:1
PartitionName=test Nodes=$node Default=YES MaxTime=60 State=UP
CONF
printf 'NodeName=%s Name=gpu Type=%s File=%s\n' "$node" t4 /dev/null "$node" a100-40gb /dev/zero >"$work/gres.conf"
export SLURM_CONF=$work/slurm.conf

# Daemons of our own, in the foreground of this shell's jobs, so that they end with it.
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
  --log-file="$work/munged.log" --seed-file="$work/munge.seed" >"$work/munged.out.log" 2>&1 &
daemons+=($!)
for _ in $(seq 50); do [ ! -S "$work/munge.socket" ] || break; sleep 0.1; done
slurmctld -D -c >"$work/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D >"$work/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
  state=$(sinfo --noheader --format=%T 2>/dev/null || true)
  if [ "$state" = idle ] || ! kill -0 "${daemons[@]}" 2>/dev/null; then break; fi
  sleep 0.2
done
if [ "$state" != idle ]; then
  echo "Slurm's daemons do not start here: $(tail -n 1 "$work/slurmctld.log") $(tail -n 1 "$work/slurmd.log")"
  exit 77
fi

# shellcheck disable=SC2016  # it is the job that expands these
printf '#!/bin/sh\nfor word; do printf "%%s\\n" "$word"; done >"$OUT"\n' >"$work/clone/tools/run"
chmod +x "$work/clone/tools/run"

# runs NAME ARGUMENTS...: the job goes to a node, and runs the words of $work/wanted.
runs() {
  local name=$1
  shift
  "$gpuplan" fit "$@" --emit slurm >"$work/$name.sh" || fail "$name: no job"
  (cd "$work/clone" && sbatch --test-only "$work/$name.sh") >"$work/$name.log" 2>&1 || fail "$name: sbatch --test-only"
  (cd "$work/clone" && OUT=$work/words timeout 60 sbatch --wait "$work/$name.sh") >"$work/$name.log" 2>&1 ||
    fail "$name: sbatch"
  diff "$work/words" "$work/wanted" || fail "$name: the job ran something else"
}

printf '%s\n' validate zoo:resnet50 --batch 395 --opt adam -o validate.json >"$work/wanted"
runs zoo zoo:resnet50 --opt adam --on a100-40gb
# Names that a shell, or a line of #SBATCH, would read otherwise.
odd="$work/it's a \"net\" \$(id) é #SBATCH.yaml"
sed 's/^name: .*/name: "m l\/p # é"/' configs/models/mlp.yaml >"$odd"
printf '%s\n' validate "$odd" --batch 8 --amp fp16 --opt adamw -o validate.json >"$work/wanted"
runs odd "$odd" --opt adamw --amp fp16 --batch 8 --on t4
# A kind of GPU that the cluster does not have is refused by Slurm, not run without one.
"$gpuplan" fit zoo:resnet18 --on h100 --emit slurm >"$work/missing.sh"
if (cd "$work/clone" && sbatch --test-only "$work/missing.sh") >"$work/missing.log" 2>&1; then
  fail "a job for an H100 was taken by a cluster without one"
fi
cd "$root"
echo "Slurm $(sbatch --version | cut -d' ' -f2) ran 2 jobs and refused one"
