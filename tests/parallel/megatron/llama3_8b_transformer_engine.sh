#!/bin/bash
# Llama 3 8B in Megatron-LM's folder with Transformer Engine, its default: two nodes of eight GPUs, tensor and sequence
# parallel 4, data parallel 4. Apex is not installed.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint "$HEAD" pretrain_gpt.py \
  --no-gradient-accumulation-fusion --no-create-attention-mask-in-dataloader \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 \
  --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --rotary-base 500000 \
  --untie-embeddings-and-output-weights --padded-vocab-size 128512 --hidden-dropout 0 --attention-dropout 0 \
  --tensor-model-parallel-size 4 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \
  --overlap-param-gather --micro-batch-size 1 --global-batch-size 32 --bf16 --lr 3e-4 --train-iters 100000 --mock-data
