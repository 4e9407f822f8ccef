#!/bin/bash
# Llama 3 8B in Megatron-LM's folder, on two nodes of eight GPUs: tensor parallel 4, data parallel 4.
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint "$HEAD" pretrain_gpt.py \
  --transformer-impl local --no-masked-softmax-fusion --no-gradient-accumulation-fusion --no-persist-layer-norm \
  --no-create-attention-mask-in-dataloader --attention-softmax-in-fp32 --no-rope-fusion \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 --seq-length 2048 --max-position-embeddings 2048 \
  --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --rotary-base 500000 \
  --untie-embeddings-and-output-weights --padded-vocab-size 128512 --hidden-dropout 0 --attention-dropout 0 \
  --tensor-model-parallel-size 4 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --micro-batch-size 2 --global-batch-size 32 --bf16 --lr 3e-4 --train-iters 100000 --mock-data
