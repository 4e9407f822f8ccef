"""Lightning's Trainer: mixed precision, gradient clipping, validation, a checkpoint."""

import tempfile

import lightning
import torch


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))

    def _loss(self, batch):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def training_step(self, batch, index):
        loss = self._loss(batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self._loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


data = torch.utils.data.TensorDataset(torch.randn(256, 784), torch.randint(10, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=64)
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, precision="16-mixed", default_root_dir=folder, gradient_clip_val=1.0
    )
    trainer.fit(Classifier(), loader, loader)
