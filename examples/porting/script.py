"""A training script: one process, one loop. docs/guides/porting.md makes app.py of it."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 30
BATCH = 64


def main() -> float:
    """Train, and give the accuracy on digits that were left aside."""
    torch.manual_seed(1)

    pixels, digits = load_digits(return_X_y=True)
    x = torch.tensor(pixels / 16, dtype=torch.float32)
    y = torch.tensor(digits)
    order = torch.randperm(len(x))
    test, train = order[:360], order[360:]
    loader = DataLoader(TensorDataset(x[train], y[train]), BATCH, shuffle=True, drop_last=True)

    model = nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))

    accuracy = 0.0
    for epoch in range(EPOCHS):
        model.train()
        for images, labels in loader:
            noisy = images + 0.1 * torch.randn_like(images)
            loss = functional.cross_entropy(model(noisy), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

        model.eval()
        with torch.no_grad():
            accuracy = (model(x[test]).argmax(dim=1) == y[test]).float().mean().item()
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy:.3f}")
        torch.save(model.state_dict(), "last.pt")
        if accuracy >= 0.985:
            break
    return accuracy


if __name__ == "__main__":
    main()
