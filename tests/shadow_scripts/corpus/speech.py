"""openai-whisper's decoder on a minute of noise, with a model of random weights."""

import torch
import whisper

torch.manual_seed(0)
sizes = whisper.model.ModelDimensions(80, 1500, 384, 6, 4, 51865, 448, 384, 6, 4)  # of its "tiny"
model = whisper.model.Whisper(sizes).cuda()
audio = torch.randn(60 * 16000)
print(len(model.transcribe(audio.numpy(), language="en", fp16=True, temperature=0.0)["segments"]) >= 0)
