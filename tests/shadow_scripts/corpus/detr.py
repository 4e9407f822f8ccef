"""DETR: training steps, with the matching on the host, and detections."""

import torch
import transformers

torch.manual_seed(0)
backbone = transformers.ResNetConfig(out_features=["stage4"])
model = transformers.DetrForObjectDetection(
    transformers.DetrConfig(use_timm_backbone=False, backbone_config=backbone, num_labels=10, encoder_layers=2)
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
images = torch.randn(2, 3, 320, 320, device="cuda")
targets = [
    {"class_labels": torch.tensor([1, 2]).cuda(), "boxes": torch.tensor([[0.5, 0.5, 0.2, 0.2]] * 2).cuda()}
] * 2
for _ in range(2):
    loss = model(pixel_values=images, labels=targets).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    found = transformers.DetrImageProcessor().post_process_object_detection(model(images), threshold=0.05)
print(len(found))
