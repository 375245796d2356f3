//! Hooks that hang, fail, print garbage or leave processes behind: the log names each of them, the others go on, and no
//! event is lost. The log is one of the process, so this is the only test of its program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{FastClock, Fixture};
use serde_json::Value;
use setpoint_api::{Clock, SystemClock};

/// The lines of the log so far.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    }

    /// Waits for a line about a hook.
    async fn wait(&self, hook: &str, text: &str) {
        for _ in 0..600 {
            let log = String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned();
            if log.lines().any(|line| line.contains(hook) && line.contains(text)) {
                return;
            }
            SystemClock::new().sleep(Duration::from_millis(50)).await;
        }
        panic!("no line about {hook} has {text:?}");
    }
}

/// The names of the objects of all events.
fn names(runs: &[Value]) -> Vec<&str> {
    let contexts = runs.iter().flat_map(|run| run.as_array().unwrap());
    contexts
        .filter_map(|context| context["object"]["metadata"]["name"].as_str())
        .collect()
}

/// The hooks: the name, the script, and what the log has of a run. The bad ones are broken until the file exists.
fn hooks(fixed: &Path) -> [(&'static str, String, &'static str); 6] {
    let is_broken = format!("! test -e {}", fixed.display());
    [
        (
            "hangs.sh",
            format!("while {is_broken}; do sleep 0.1; done"),
            "still running",
        ),
        (
            "fails.sh",
            format!("if {is_broken}; then exit 1; fi"),
            "Hook failed. Will retry after delay.",
        ),
        (
            "prints.sh",
            format!("if {is_broken}; then head -c 100000 /dev/urandom; echo garbage > \"$METRICS_PATH\"; fi"),
            "got bad metrics",
        ),
        (
            "patches.sh",
            format!("if {is_broken}; then echo '{{\"operation\": 5' > \"$KUBERNETES_PATCH_PATH\"; fi"),
            "invalid object patch",
        ),
        (
            "forks.sh",
            "for i in 1 2 3 4 5; do sleep 20 & done".to_owned(),
            "still has its output open",
        ),
        ("works.sh", String::new(), "Hook executed successfully"),
    ]
}

/// TO8
#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_bad_hooks_and_they_lose_no_event() {
    let log = Log::start();
    let mut fixture = Fixture::new().await;
    fixture.clock = Arc::new(FastClock(SystemClock::new()));
    let fixed = fixture.directory.path().join("fixed");
    let hooks = hooks(&fixed);
    for (name, script, _) in &hooks {
        let config = format!(
            "configVersion: v1\nkubernetes:\n- {{name: maps, kind: cm, queue: {name}, executeHookOnSynchronization: false, nameSelector: {{matchNames: [a, b, c]}}}}"
        );
        fixture.hook(name, &config, script);
    }
    // The last hook of the main queue shows that all monitors run.
    let last = "configVersion: v1\nkubernetes:\n- kind: Namespace";
    fixture.hook("z-last.sh", last, "");
    fixture.start().await;
    fixture.runs("z-last.sh", 1).await;
    fixture.create("a", "1").await;
    for (name, _, text) in &hooks {
        log.wait(name, text).await;
    }
    for (count, name) in [(2, "b"), (3, "c")] {
        fixture.create(name, "1").await;
        fixture.runs("works.sh", count).await;
    }
    fs::write(&fixed, "").unwrap();
    for (hook, ..) in &hooks {
        while !names(&fixture.runs(hook, 1).await).contains(&"c") {
            SystemClock::new().sleep(Duration::from_millis(50)).await;
        }
        let runs = fixture.runs(hook, 1).await;
        let mut seen = names(&runs);
        seen.dedup();
        assert!(
            ["a", "b", "c"].iter().all(|name| seen.contains(name)),
            "{hook}: {runs:?}"
        );
    }
}
