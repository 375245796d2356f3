//! The client against a real containerd.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod rig;

use std::time::Duration;

use rig::{BUSYBOX, Rig, isolated};
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::{
    ContainerConfig, ContainerService, ContainerState, ErrorKind, ExecRequest, ImageService, Runtime,
    SandboxService, SandboxState, StatsService, StreamService, Streams, contract,
};
use setpoint_cri::Containerd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn containerd_keeps_the_contract_of_runtimes() {
    isolated("containerd_keeps_the_contract_of_runtimes", async |rig: Rig| {
        let wait = || {
            let passed = tokio::time::sleep(Duration::from_millis(50));
            Box::pin(passed) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
        };
        let contract = contract::Contract {
            runtime: &rig.cri,
            sandbox: rig.sandbox_config("contract"),
            running: Rig::container_config("trap 'exit 0' TERM; while true; do sleep 0.1; done"),
            exiting: (Rig::container_config("exit 3"), 3),
            wait: &wait,
        };
        contract::check(&contract).await.unwrap();
    });
}

/// FL6, FL8
#[test]
fn a_container_runs_and_its_end_is_reported() {
    isolated("a_container_runs_and_its_end_is_reported", async |rig: Rig| {
        let (sandbox, container) = rig.run("web", "echo hello; exit 3").await;
        let exit = rig.exit(&container).await;
        assert_eq!((exit.exit_code, exit.reason.as_str()), (3, "Error"));
        let record = rig.container(&container).await;
        assert_eq!(record.sandbox, sandbox);
        let log = std::fs::read_to_string(&record.log_path).unwrap();
        assert!(log.ends_with(" stdout F hello\n"), "{log}");
        let record = rig.cri.sandbox(&sandbox).await.unwrap().unwrap();
        assert_eq!(
            (record.pod.uid.as_str(), record.state),
            ("uid-web", SandboxState::Ready)
        );
        assert_eq!(record.addresses.len(), 1);
    });
}

#[test]
fn what_is_stopped_and_removed_is_gone() {
    isolated("what_is_stopped_and_removed_is_gone", async |rig: Rig| {
        let (sandbox, container) = rig
            .run("web", "trap 'exit 0' TERM; while true; do sleep 0.1; done")
            .await;
        rig.cri
            .stop_container(&container, Duration::from_secs(10))
            .await
            .unwrap();
        assert_eq!(rig.exit(&container).await.exit_code, 0);
        rig.cri.remove_container(&container).await.unwrap();
        rig.cri.remove_container(&container).await.unwrap();
        assert_eq!(rig.cri.container(&container).await.unwrap(), None);
        for _ in 0..2 {
            rig.cri.stop_sandbox(&sandbox).await.unwrap();
        }
        rig.cri.remove_sandbox(&sandbox).await.unwrap();
        rig.cri.remove_sandbox(&sandbox).await.unwrap();
        assert_eq!(rig.cri.list_sandboxes().await.unwrap(), []);
    });
}

#[test]
fn a_command_reads_its_input_to_the_end_and_returns_its_exit_code() {
    isolated(
        "a_command_reads_its_input_to_the_end_and_returns_its_exit_code",
        async |rig: Rig| {
            let (_, container) = rig.run("web", "sleep 1000").await;
            let (stdout, mut read_stdout) = tokio::io::duplex(1 << 20);
            let (stderr, mut read_stderr) = tokio::io::duplex(1 << 20);
            let streams = Streams {
                stdin: Some(Box::new(&b"some input"[..])),
                stdout: Some(Box::new(stdout)),
                stderr: Some(Box::new(stderr)),
                resize: None,
            };
            let request = ExecRequest {
                command: ["sh", "-c", "cat; echo problem >&2; exit 7"]
                    .map(str::to_owned)
                    .to_vec(),
                tty: false,
            };
            assert_eq!(rig.cri.exec(&container, request, streams).await.unwrap(), 7);
            let (mut output, mut problems) = (String::new(), String::new());
            read_stdout.read_to_string(&mut output).await.unwrap();
            read_stderr.read_to_string(&mut problems).await.unwrap();
            assert_eq!((output.as_str(), problems.as_str()), ("some input", "problem\n"));
        },
    );
}

#[test]
fn a_command_that_takes_too_long_is_killed() {
    isolated("a_command_that_takes_too_long_is_killed", async |rig: Rig| {
        let (_, container) = rig.run("web", "sleep 1000").await;
        let command = ["sh", "-c", "echo out; echo err >&2; exit 4"].map(str::to_owned);
        let output = rig
            .cri
            .exec_sync(&container, &command, Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(
            (output.exit_code, output.stdout, output.stderr),
            (4, b"out\n".to_vec(), b"err\n".to_vec())
        );
        let command = ["sleep", "100"].map(str::to_owned);
        let error = rig
            .cri
            .exec_sync(&container, &command, Duration::from_secs(1))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::DeadlineExceeded, "{error}");
    });
}

#[test]
fn a_port_of_the_pod_is_reached_by_its_loopback_address() {
    isolated(
        "a_port_of_the_pod_is_reached_by_its_loopback_address",
        async |rig: Rig| {
            let (sandbox, container) = rig.run("web", "while true; do nc -ll -p 8080 -e cat; done").await;
            let listens = ["sh", "-c", "cat /proc/net/tcp /proc/net/tcp6"].map(str::to_owned);
            rig.until(async || {
                let output = rig
                    .cri
                    .exec_sync(&container, &listens, Duration::from_secs(5))
                    .await
                    .unwrap();
                String::from_utf8_lossy(&output.stdout).contains(":1F90")
            })
            .await;
            let (mut client, stream) = tokio::io::duplex(1024);
            let forward = rig.cri.port_forward(&sandbox, 8080, Box::new(stream));
            let talk = async {
                client.write_all(b"ping").await.unwrap();
                let mut reply = [0; 4];
                client.read_exact(&mut reply).await.unwrap();
                drop(client);
                reply
            };
            let (forwarded, reply) = tokio::join!(forward, talk);
            forwarded.unwrap();
            assert_eq!(&reply, b"ping");
            let (_, stream) = tokio::io::duplex(1024);
            assert!(
                rig.cri
                    .port_forward(&sandbox, 81, Box::new(stream))
                    .await
                    .is_err()
            );
        },
    );
}

/// FL8
#[test]
fn a_container_above_its_memory_limit_is_killed() {
    isolated(
        "a_container_above_its_memory_limit_is_killed",
        async |rig: Rig| {
            let config = ContainerConfig {
                name: "main".to_owned(),
                image: BUSYBOX.to_owned(),
                command: ["sh", "-c", "x=a; while true; do x=$x$x; done"]
                    .map(str::to_owned)
                    .to_vec(),
                resources: Resources {
                    memory_limit: 32 << 20,
                    ..Resources::default()
                },
                ..ContainerConfig::default()
            };
            let (_, container) = rig.run_config("web", config).await;
            let exit = rig.exit(&container).await;
            assert_eq!((exit.exit_code, exit.reason.as_str()), (137, "OOMKilled"));
        },
    );
}

#[test]
fn containers_go_on_while_containerd_is_killed_and_started_again() {
    isolated(
        "containers_go_on_while_containerd_is_killed_and_started_again",
        async |mut rig: Rig| {
            let (_, container) = rig.run("web", "sleep 1000").await;
            let before = rig.container(&container).await;
            rig.containerd.kill().await.unwrap();
            let error = rig.cri.list_containers().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
            rig.containerd = Containerd::start(&rig.options).await.unwrap();
            rig.until(async || {
                rig.cri
                    .status()
                    .await
                    .is_ok_and(|status| status.runtime_not_ready.is_none())
            })
            .await;
            let after = rig.container(&container).await;
            assert_eq!(after, before);
            assert!(matches!(after.state, ContainerState::Running { .. }));
            rig.cri.stop_container(&container, Duration::ZERO).await.unwrap();
            assert_eq!(rig.exit(&container).await.exit_code, 137);
        },
    );
}

#[test]
fn images_are_found_by_name_and_by_id() {
    isolated("images_are_found_by_name_and_by_id", async |rig: Rig| {
        let image = rig.cri.image(BUSYBOX).await.unwrap().unwrap();
        assert_eq!(image.tags, [BUSYBOX]);
        assert_eq!(rig.cri.image(&image.id).await.unwrap().unwrap().id, image.id);
        assert_eq!(rig.cri.image("docker.io/library/absent:1").await.unwrap(), None);
        let pinned = rig.cri.list_images().await.unwrap();
        assert_eq!(pinned.len(), 2);
        rig.cri.remove_image(BUSYBOX).await.unwrap();
        rig.cri.remove_image(BUSYBOX).await.unwrap();
        assert_eq!(rig.cri.image(BUSYBOX).await.unwrap(), None);
        assert!(rig.cri.image_file_system().await.unwrap().path.contains("root"));
    });
}

#[test]
fn a_program_that_does_not_exist_is_an_error_of_the_start() {
    isolated(
        "a_program_that_does_not_exist_is_an_error_of_the_start",
        async |rig: Rig| {
            let sandbox_config = rig.sandbox_config("web");
            let sandbox = rig.cri.run_sandbox(sandbox_config.clone()).await.unwrap();
            let config = |image: &str| ContainerConfig {
                name: "main".to_owned(),
                image: image.to_owned(),
                command: vec!["/absent".to_owned()],
                ..ContainerConfig::default()
            };
            let create = |image| rig.cri.create_container(&sandbox, config(image), &sandbox_config);
            let error = create("docker.io/library/absent:1").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
            let container = create(BUSYBOX).await.unwrap();
            let error = rig.cri.start_container(&container).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::StartContainer, "{error}");
            let exit = rig.exit(&container).await;
            assert_eq!((exit.exit_code, exit.reason.as_str()), (128, "StartError"));
        },
    );
}

#[test]
fn the_use_of_running_containers_is_measured() {
    isolated("the_use_of_running_containers_is_measured", async |rig: Rig| {
        let (_, container) = rig.run("web", "while true; do true; done").await;
        rig.until(async || {
            let stats = rig.cri.container_stats().await.unwrap();
            stats
                .iter()
                .any(|one| one.id == container && one.cpu_nanoseconds > 0 && one.working_set_bytes > 0)
        })
        .await;
    });
}
