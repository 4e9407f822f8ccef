"""Encoders of transformers 4.56 with eager attention: what tests/shadow/results/*.torch2.8.nocudnn has of runs with attn=eager.

build() makes a model as from_pretrained(attn_implementation="eager") does: the class of its attention is chosen when it is
built, which a later set_attn_implementation("eager") does not change. RECIPES are the runs of a batch. Read by the recorder of
PyTorch's CUDA code as saving_memory.py is.

Not kept, as they are not equal yet: peaks of DistilBERT (within 1.0 %), RoBERTa-large (0.9 %), BERT under autocast on an A100
(0.9 % of reserved bytes), and with checkpoints (2.3 %), where a layer's weights outlive its checkpoint.
"""
import transformers

LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
MODELS = {  # class, its config's, what is not the config's default, tokens of a sample, batch
    "bert_base": ("BertForSequenceClassification", "BertConfig", {}, 128, 8),
    "roberta_large": ("RobertaForSequenceClassification", "RobertaConfig",
                      dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **LARGE), 256, 4),
    "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", {}, 256, 4),
}
RECIPES = [{"opt": "adamw"}, {"opt": "adamw", "amp": "bf16"}, {"opt": "adamw", "dtype": "bf16"}, {"opt": "adamw", "checkpoint": True},
           {"mode": "infer"}, {"mode": "infer", "dtype": "fp16"}]


def build(name, checkpoint=False):
    cls, config, options, _, _ = MODELS[name]
    model = getattr(transformers, cls)(getattr(transformers, config)(attn_implementation="eager", **options))
    if checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model
