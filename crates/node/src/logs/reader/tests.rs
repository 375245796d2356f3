//! Logs that are sent and followed, from files and texts.

#![allow(clippy::disallowed_methods, reason = "the peer of a test ends with the test")]

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::SystemClock;

use super::*;

#[derive(Default)]
struct Container {
    runs: AtomicBool,
}

impl FollowState for Container {
    fn is_running(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async { self.runs.load(Ordering::Acquire) })
    }
}

fn line(text: &str) -> String {
    format!("2026-01-01T00:00:00Z stdout F {text}\n")
}

fn write(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn start(source: LogSource, options: LogOptions, state: &Arc<Container>) -> mpsc::Receiver<Bytes> {
    let (out, receiver) = mpsc::channel(16);
    let reader = source.open(options).await.unwrap();
    tokio::spawn(reader.send(out, state.clone(), Arc::new(SystemClock::new())));
    receiver
}

async fn rest(mut receiver: mpsc::Receiver<Bytes>) -> String {
    let mut text = Vec::new();
    while let Some(bytes) = receiver.recv().await {
        text.extend_from_slice(&bytes);
    }
    String::from_utf8(text).unwrap()
}

async fn next(receiver: &mut mpsc::Receiver<Bytes>) -> String {
    String::from_utf8(receiver.recv().await.unwrap().to_vec()).unwrap()
}

#[track_caller]
fn check(options: LogOptions, log: &str, expected: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    write(&path, log);
    let text = runtime.block_on(async {
        let receiver = start(LogSource::File(path), options, &Arc::default()).await;
        rest(receiver).await
    });
    assert_eq!(text, expected);
}

#[test]
fn a_file_is_sent_from_its_tail() {
    let log = [line("one"), line("two"), line("three")].concat();
    let tail = |lines| LogOptions {
        tail_lines: Some(lines),
        ..LogOptions::default()
    };
    check(LogOptions::default(), &log, "one\ntwo\nthree\n");
    check(tail(2), &log, "two\nthree\n");
    check(tail(0), &log, "");
    check(
        LogOptions::default(),
        &format!("{log}nonsense\n{}", line("four")),
        "one\ntwo\nthree\nfour\n",
    );
}

#[test]
fn a_followed_file_of_a_container_that_ended_is_sent_with_its_last_line() {
    let options = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    check(options, line("one").trim_end(), "one");
}

#[tokio::test]
async fn a_followed_file_is_sent_as_it_grows_and_over_a_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    write(&path, &line("one"));
    let state = Arc::new(Container::default());
    state.runs.store(true, Ordering::Release);
    let options = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let mut receiver = start(LogSource::File(path.clone()), options, &state).await;
    assert_eq!(next(&mut receiver).await, "one\n");
    write(&path, "2026-01-01T00:00:00Z stdout F tw");
    write(&path, "o\n");
    assert_eq!(next(&mut receiver).await, "two\n");
    let rotated = directory.path().join("0.log.20260101-000000");
    fs::rename(&path, &rotated).unwrap();
    write(&rotated, &line("three"));
    write(&path, &line("four"));
    let mut text = String::new();
    while !text.ends_with("four\n") {
        text.push_str(&next(&mut receiver).await);
    }
    assert_eq!(text, "three\nfour\n");
    state.runs.store(false, Ordering::Release);
    assert_eq!(rest(receiver).await, "");
}

#[tokio::test]
async fn the_log_of_a_simulated_container_is_a_text() {
    let source = LogSource::Text {
        time: "2026-01-01T00:00:00Z".parse().unwrap(),
        text: "one\ntwo".to_owned(),
    };
    let options = LogOptions {
        timestamps: true,
        tail_lines: Some(1),
        ..LogOptions::default()
    };
    let receiver = start(source, options, &Arc::default()).await;
    assert_eq!(rest(receiver).await, "2026-01-01T00:00:00.000000000Z two\n");
}

#[tokio::test]
async fn a_missing_file_is_an_error_with_the_kubelets_text() {
    let error = LogSource::File("/nonexistent/0.log".into())
        .open(LogOptions::default())
        .await
        .unwrap_err();
    assert_eq!(
        error,
        "failed to try resolving symlinks in path \"/nonexistent/0.log\": \
         lstat /nonexistent/0.log: no such file or directory"
    );
}

#[tokio::test]
async fn a_line_that_is_too_long_does_not_stop_a_followed_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("0.log");
    write(&path, &"x".repeat(2 << 20));
    write(&path, "\n");
    write(&path, &line("two"));
    let state = Arc::new(Container::default());
    state.runs.store(true, Ordering::Release);
    let options = LogOptions {
        follow: true,
        ..LogOptions::default()
    };
    let mut receiver = start(LogSource::File(path), options, &state).await;
    assert_eq!(next(&mut receiver).await, "two\n");
}
