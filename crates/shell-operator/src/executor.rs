//! Processes of hooks: runs one, logs its output line by line, and waits for its end.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use setpoint_api::Clock;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::log::HookLabels;

/// How long the output is read on after the process has ended: a child of it may still have it open.
pub(crate) const OUTPUT_DELAY: Duration = Duration::from_secs(2);
/// After this time, and then each time it has passed, the log names a hook that still runs.
const SLOW_RUN: Duration = Duration::from_secs(60);
/// How long a run may go on after the stop.
const STOP_DELAY: Duration = Duration::from_secs(25);
/// Longer lines are truncated in the log.
const MAX_LINE_BYTES: usize = 10_000;
/// How much of the standard error is in the error of a failed run.
const MAX_ERROR_BYTES: usize = 8 << 10;

/// A run of a hook.
pub(crate) struct Run<'a> {
    pub(crate) path: &'a Path,
    pub(crate) environment: &'a [(&'static str, &'a Path)],
    pub(crate) labels: &'a HookLabels,
    pub(crate) clock: &'a dyn Clock,
}

impl Run<'_> {
    /// Runs the hook to its end. The error is its standard error, or its exit status if that is empty.
    pub(crate) async fn execute(&self, stop: &CancellationToken) -> Result<(), String> {
        let mut child = self.start().map_err(|error| format!("cmd start: {error}"))?;
        let mut group = ProcessGroup::of(&child);
        let errors = Arc::new(Mutex::new(String::new()));
        let mut readers = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            readers.spawn(log_lines(stdout, "stdout", self.labels.clone(), None));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.spawn(log_lines(
                stderr,
                "stderr",
                self.labels.clone(),
                Some(errors.clone()),
            ));
        }
        let status = self.wait(&mut child, &group, stop).await;
        group.release();
        let drained = async { while readers.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => {}
            () = self.clock.sleep(OUTPUT_DELAY) => self.labels.warn(
                "the hook has ended, but a process that it started still has its output open",
            ),
        }
        match status.map_err(|error| format!("cmd run: {error}"))? {
            status if status.success() => Ok(()),
            status => {
                let text = errors.lock().trim().to_owned();
                match text.is_empty() {
                    true => Err(format!("cmd run: {status}")),
                    false => Err(text),
                }
            }
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        Command::new(self.path)
            .envs(self.environment.iter().copied())
            .current_dir(self.path.parent().unwrap_or(Path::new("/")))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    async fn wait(
        &self,
        child: &mut Child,
        group: &ProcessGroup,
        stop: &CancellationToken,
    ) -> std::io::Result<ExitStatus> {
        let mut slow = self.clock.sleep(SLOW_RUN);
        let mut seconds = 0;
        let stopped = async {
            stop.cancelled().await;
            self.clock.sleep(STOP_DELAY).await;
        };
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                status = child.wait() => return status,
                () = &mut slow => {
                    seconds += SLOW_RUN.as_secs();
                    self.labels.warn(&format!("the hook is still running after {seconds} seconds"));
                    slow = self.clock.sleep(SLOW_RUN);
                }
                () = &mut stopped => {
                    self.labels.warn("the hook is killed: it has not ended in time after the stop");
                    group.kill();
                    return child.wait().await;
                }
            }
        }
    }
}

/// The processes of a hook that runs. Those of a run that is dropped before its end are killed: nothing waits for them.
pub(crate) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group of a process that leads one and has not been waited for.
    pub(crate) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// Lets the processes run on: the first of them has ended, so that its id may be that of another process.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // It fails only if all of them have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Logs each line of an output, and keeps the last of them as the error of the run.
async fn log_lines(
    output: impl AsyncRead + Unpin,
    name: &'static str,
    labels: HookLabels,
    errors: Option<Arc<Mutex<String>>>,
) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    let mut is_truncated = false;
    loop {
        let Ok(buffer) = reader.fill_buf().await else {
            return;
        };
        if buffer.is_empty() {
            break;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (text, used) = match end {
            Some(end) => (&buffer[..end], end + 1),
            None => (buffer, buffer.len()),
        };
        let free = MAX_LINE_BYTES.saturating_sub(line.len());
        is_truncated |= text.len() > free;
        line.extend_from_slice(&text[..text.len().min(free)]);
        reader.consume(used);
        if end.is_some() {
            log_line(&line, is_truncated, name, &labels, errors.as_deref());
            line.clear();
            is_truncated = false;
        }
    }
    log_line(&line, is_truncated, name, &labels, errors.as_deref());
}

fn log_line(
    line: &[u8],
    is_truncated: bool,
    output: &'static str,
    labels: &HookLabels,
    errors: Option<&Mutex<String>>,
) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    match is_truncated {
        true => labels.output(output, &format!("{text}:truncated")),
        false => labels.output(output, text),
    }
    if let Some(errors) = errors {
        let mut errors = errors.lock();
        errors.push_str(text);
        errors.push('\n');
        if errors.len() > MAX_ERROR_BYTES {
            let mut from = errors.len() - MAX_ERROR_BYTES;
            while !errors.is_char_boundary(from) {
                from += 1;
            }
            errors.drain(..from);
        }
    }
}
