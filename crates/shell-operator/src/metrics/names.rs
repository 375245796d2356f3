//! Names of the metrics, as upstream has them. `{PREFIX}` is a flag.

pub(crate) const LIVE_TICKS: &str = "{PREFIX}live_ticks";
pub(crate) const TASKS_QUEUE_LENGTH: &str = "{PREFIX}tasks_queue_length";
pub(crate) const TASK_WAIT_IN_QUEUE_SECONDS_TOTAL: &str = "{PREFIX}task_wait_in_queue_seconds_total";
pub(crate) const HOOK_ENABLE_KUBERNETES_BINDINGS_SECONDS: &str =
    "{PREFIX}hook_enable_kubernetes_bindings_seconds";
pub(crate) const HOOK_ENABLE_KUBERNETES_BINDINGS_ERRORS_TOTAL: &str =
    "{PREFIX}hook_enable_kubernetes_bindings_errors_total";
pub(crate) const HOOK_ENABLE_KUBERNETES_BINDINGS_SUCCESS: &str =
    "{PREFIX}hook_enable_kubernetes_bindings_success";
pub(crate) const HOOK_RUN_SECONDS: &str = "{PREFIX}hook_run_seconds";
pub(crate) const HOOK_RUN_ERRORS_TOTAL: &str = "{PREFIX}hook_run_errors_total";
pub(crate) const HOOK_RUN_ALLOWED_ERRORS_TOTAL: &str = "{PREFIX}hook_run_allowed_errors_total";
pub(crate) const HOOK_RUN_SUCCESS_TOTAL: &str = "{PREFIX}hook_run_success_total";
pub(crate) const KUBE_SNAPSHOT_OBJECTS: &str = "{PREFIX}kube_snapshot_objects";
