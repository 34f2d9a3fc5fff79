"""What a client does."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Net, load_data
from quickstart.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    client, config = int(context.node_config["partition-id"]), msg.content["config"]
    if client == context.run_config["fails"] and config["server-round"] == 2:
        raise RuntimeError("no data on this device")
    images, labels = load_data(client)
    loss = train_fn(model, images, labels, config["lr"], config.get("proximal-mu", 0.0))
    metrics = {"train_loss": loss, "num-examples": len(images)}
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=msg)
