//! The program against a `setpoint` process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use setpoint_testkit::SetpointProcess;

const PROGRAM: &str = env!("CARGO_BIN_EXE_edge-vs-level");

/// TR3, TR4, TR5
#[test]
fn tr3_the_program_prints_which_controllers_converge() {
    let Some(up) = SetpointProcess::start_beside(PROGRAM, &["--nodes", "0", "--controllers", "none"]) else {
        return;
    };
    let output = up.command(PROGRAM).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let outcomes: Vec<&str> = stdout.lines().rev().take(3).collect();
    let expected = [
        "resync converges",
        "level converges at the next event only",
        "edge does not converge",
    ];
    assert_eq!(outcomes, expected, "{stdout}");
}
