"""Celery's settings for Turnchain's own app, each with its reason. `turnchain.install(app)` changes none of these.

What belongs to our tasks alone (acks, limits, results) stands on the tasks, in `tasks/base.py`.
"""

from __future__ import annotations

import os

from turnchain.workers import transport
from turnchain.workers.installing import queues
from turnchain.workers.settings import Settings

_settings = Settings.from_env(os.environ)

broker_url = _settings.broker_url

# The ledger holds results; a result key in the broker would hold content, and would have to be expired.
result_backend = None
task_ignore_result = True

# pickle would run whatever a message says.
task_serializer = "json"
accept_content = ["json"]

# Named, so that a typo is an error and not a queue that nobody reads. The first is the default of `-Q`.
task_queues = queues(_settings)
task_default_queue = "turns"
task_create_missing_queues = False

# One message a slot: a reserved message behind a long dispatch is a turn that another worker could run.
worker_prefetch_multiplier = 1

# A publish after a commit is a wake-up call that the sweep repeats: fail soon rather than hold a slot.
# That is about a second for a broker that refuses, and some socket timeouts for one that is frozen.
task_publish_retry_policy = {
    "max_retries": 3,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.5,
}

# Workers start and stop with the broker away, as long as it takes.
broker_connection_retry_on_startup = True
broker_connection_max_retries = None

# A turn goes on through a lost broker connection: its lease is the ledger's, not the connection's.
worker_cancel_long_running_tasks_on_connection_loss = False

# Flower asks for task events while it runs, and so does `-E`; until somebody does, they would cost a third of the
# throughput. `task-sent` events would double the traffic and show nothing that the ledger does not.
worker_send_task_events = False
task_send_sent_event = False

# Celery's own ends the worker on a message that it cannot read.
worker_consumer = "turnchain.workers.consumer:Consumer"

# Our JSON lines instead of Celery's; see `workers/logs.py`.
worker_hijack_root_logger = False
worker_redirect_stdouts = False

# A priority is the ledger's ORDER BY at admission, so that it survives the broker.
task_inherit_parent_priority = False

# For `celery inspect` and Flower. A remote revoke decides over no turn: the next publication has another task id.
worker_enable_remote_control = True

if _settings.broker_url.startswith("redis"):
    # kombu's own ends the worker when the broker goes away, or when a list holds what is no message.
    transport.use()
    broker_transport_options = {
        "global_keyprefix": _settings.key_prefix,
        # No books about messages in hand, which are half of what a hop costs: what a dead worker had in hand is not
        # delivered again, and need not be, since takeover and rewake find every turn whatever became of its message.
        # A worker that ends in an orderly way still gives back what it has reserved. [ADR 0017]
        "ack_emulation": False,
        # A frozen server must be noticed: without these a publish blocks for ever.
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
        # `-Q turns,control` in the order given, and no further list per priority on every BRPOP.
        "queue_order_strategy": "priority",
        "priority_steps": [0],
    }
else:
    # A publish on a channel that dies is silently dropped otherwise.
    broker_transport_options = {"confirm_publish": True}
    broker_heartbeat = 30
