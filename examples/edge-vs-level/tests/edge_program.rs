//! The program as it is run, against a server of its own process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use setpoint_testkit::Up;

const PROGRAM: &str = env!("CARGO_BIN_EXE_edge-vs-level");

/// TR3, TR4, TR5
#[test]
fn tr3_the_program_prints_who_ends_right() {
    let Some(up) = Up::beside(PROGRAM, &["--nodes", "0", "--controllers", "none"]) else {
        return;
    };
    let output = up.command(PROGRAM).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let verdicts: Vec<&str> = told.lines().rev().take(3).collect();
    let expected = [
        "resync ends right",
        "level ends right at the next event, whenever that comes",
        "edge ends wrong",
    ];
    assert_eq!(verdicts, expected, "{told}");
}
