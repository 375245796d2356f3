//! The audit log, if the flags enable it: its policy and its file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::Clock;
use setpoint_apiserver::Audit;
use setpoint_auth::audit::{Limits, Policy, RotatingFile, Writer, log};

use crate::args::Up;

/// The path that means the standard output.
const STANDARD_OUTPUT: &str = "-";
const MEBIBYTE: u64 = 1 << 20;

/// The server's end of the audit log, and its writer. As in Kubernetes, a path without a policy logs nothing.
pub(super) async fn open(args: &Up, clock: &Arc<dyn Clock>) -> Result<Option<(Audit, Writer)>> {
    let (Some(path), Some(policy)) = (&args.audit_log_path, &args.audit_policy_file) else {
        if args.audit_log_path.is_some() {
            tracing::warn!("--audit-policy-file is not set, so no audit event is recorded");
        }
        return Ok(None);
    };
    let policy = read_policy(policy)?;
    let (log, writer) = match path.as_os_str() == STANDARD_OUTPUT {
        true => log::to_stream(tokio::io::stdout()),
        false => log::to_file(open_file(path, args, clock).await?),
    };
    Ok(Some((Audit { policy, log }, writer)))
}

fn read_policy(file: &Path) -> Result<Policy> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read the audit policy {}", file.display()))?;
    Policy::parse(&text).with_context(|| format!("cannot use the audit policy {}", file.display()))
}

async fn open_file(path: &Path, args: &Up, clock: &Arc<dyn Clock>) -> Result<RotatingFile> {
    let limits = Limits {
        max_bytes: (args.audit_log_maxsize > 0).then(|| args.audit_log_maxsize * MEBIBYTE),
        max_backups: (args.audit_log_maxbackup > 0).then_some(args.audit_log_maxbackup),
    };
    let file = RotatingFile::open(path, limits, clock.clone()).await;
    file.with_context(|| format!("cannot open the audit log {}", path.display()))
}
