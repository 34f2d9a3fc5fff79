"""Networks: the victims, the generators of attackers, the tasks, and the layers that they share."""
