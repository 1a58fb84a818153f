#!/bin/bash
# Four workers on two machines of a Slurm cluster: sbatch slurm.sh. Not run by unidev's own tests.
# Each machine needs unidev with the extra `cli`, unidev-ray, and the plugin of a framework.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=2

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)

# Starts Ray on each machine, runs the command on the first one, and ends Ray again.
srun ray symmetric-run --address "$head:6379" --min-nodes 2 -- \
  unidev launch --workers 4 --address auto --retries 1 --checkpoints "$PWD/checkpoints" train.py
