"""Users' files, good and bad, as the audit's tests write them."""

GOOD = """
import torch
from torch import nn

def client():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 200), nn.ReLU(), nn.Linear(200, 10))
    return net, nn.CrossEntropyLoss(), (torch.rand(8, 3, 4, 4), torch.arange(8))
"""
RAISES = "def client():\n    raise KeyError('weights of\\nyesterday')\n"
RAISES_AT_IMPORT = "import no_such_library\n"
HANGS = "import time\n\ndef client():\n    time.sleep(3600)\n"
PRINTS = GOOD.replace("    torch.manual_seed(0)", "    print('secret\\n' * 50)\n    torch.manual_seed(0)")
FORKS = """
import os
import time

def client():
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    if os.fork() == 0:
        raise SystemExit(0)
    raise ValueError("after two forks")
"""
# Forks copy nothing until they write: together they hold what one does.
FORKS_THAT_STAY = """
import os
import time

def client():
    for _ in range(4):
        if os.fork() == 0:
            time.sleep(3600)
    time.sleep(1)
    raise ValueError("beside four forks")
"""
EATS_MEMORY = """
def client():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (1 << 26)))
"""
EXITS = "def client():\n    raise SystemExit('enough')\n"
DIES = "import os\n\ndef client():\n    os._exit(0)\n"
NONSENSE = "def client():\n    return 42\n"
# What a client of Flower returns, besides.
TRAINS = """
import torch
from torch import nn

def client():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 200), nn.ReLU(), nn.Linear(200, 10))
    images, labels = torch.rand(8, 3, 4, 4), torch.arange(8)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    optimiser.zero_grad()
    nn.CrossEntropyLoss()(net(images), labels).backward()
    optimiser.step()
    return list(net.parameters()), len(images), {"rate": 0.1}
"""
RESNET = """
import torch
from torch import nn
from torchvision.models import resnet18

def client():
    torch.manual_seed(0)
    return resnet18(num_classes=10), nn.CrossEntropyLoss(), (torch.rand(2, 3, 32, 32), torch.tensor([3, 5]))
"""
