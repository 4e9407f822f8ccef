"""Sentence Transformers: embeddings, and training with a ranking loss, on a small BERT made here."""

import tempfile

import sentence_transformers
import sentence_transformers.losses
import tokenizers
import transformers
from datasets import Dataset

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
words = [*SPECIAL, *"the cat sat on a mat and saw it was good".split()]
with tempfile.TemporaryDirectory() as folder:
    vocabulary = {word: i for i, word in enumerate(words)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=32, hidden_size=128, num_hidden_layers=3, num_attention_heads=4)
    transformers.BertModel(config).save_pretrained(folder)
    model = sentence_transformers.SentenceTransformer(folder, device="cuda")
    print(model.encode(["the cat sat", "on a mat and"] * 20, batch_size=8).shape)
    pairs = Dataset.from_dict({"anchor": ["the cat sat"] * 16, "positive": ["the cat saw"] * 16})
    settings = sentence_transformers.SentenceTransformerTrainingArguments(
        output_dir=folder, max_steps=2, per_device_train_batch_size=8, report_to=[]
    )
    loss = sentence_transformers.losses.MultipleNegativesRankingLoss(model)
    sentence_transformers.SentenceTransformerTrainer(model=model, args=settings, train_dataset=pairs, loss=loss).train()
