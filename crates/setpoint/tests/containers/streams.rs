//! `kubectl cp`, `attach` and `debug` with a container.

use crate::pod;
use crate::rig::{Rig, isolated};

#[test]
fn files_are_copied_both_ways_and_a_terminal_is_attached() {
    isolated(
        "streams::files_are_copied_both_ways_and_a_terminal_is_attached",
        |rig: &mut Rig| {
            let script = "read line; echo got $line; exec sleep 1000";
            rig.apply(&pod("web", script, "stdin: true", ""));
            rig.run("wait pod/web --for=condition=Ready --timeout=60s");
            let (there, back) = (rig.directory().join("there"), rig.directory().join("back"));
            std::fs::write(&there, "some content\n").unwrap();
            rig.run(&format!("cp {} web:/tmp/file", there.display()));
            assert_eq!(rig.run("exec web -- cat /tmp/file"), "some content\n");
            rig.run(&format!("cp web:/tmp/file {}", back.display()));
            assert_eq!(std::fs::read_to_string(&back).unwrap(), "some content\n");
            // The process goes on after its input, so only what it prints ends the client.
            let mut attach = rig.command("attach -i web --pod-running-timeout=60s");
            let mut attached = attach
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::io::Write::write_all(attached.stdin.as_mut().unwrap(), b"a line\n").unwrap();
            rig.until("logs web", "got a line");
            attached.kill().unwrap();
            attached.wait().unwrap();
            rig.run(
                "debug web --image=busybox:test --container=tools --target=main -- sh -c 'echo debugged'",
            );
            rig.until("logs web -c tools", "debugged");
        },
    );
}
