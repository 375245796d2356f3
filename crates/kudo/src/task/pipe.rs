//! Pipe: runs a pod whose init container writes files, and stores the files in Secrets and ConfigMaps.
//!
//! The engine adds a container that sleeps once the init container is done, and copies the files out of it by exec, as
//! upstream does. The content of a Secret appears in no log.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_client::{ExecOutput, ExecTarget};
use setpoint_kuttl::manifest;

use super::{TaskContext, TaskError, TaskResult, UnknownKinds, apply, delete};
use crate::api::{PipeSpec, TaskSpec, labels};
use crate::enhance::TaskMetadata;
use crate::health::{Health, health};

/// The container from which the files are copied.
const CONTAINER: &str = "waiter";
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// What is read of the output of a command, with that on the standard error.
const MAX_OUTPUT_BYTES: usize = MAX_FILE_BYTES + (64 << 10);
/// How long one command may take.
const EXEC_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn run(context: &TaskContext<'_>, spec: &TaskSpec) -> TaskResult {
    if is_done(context, &spec.pipe).await? {
        return Ok(true);
    }
    let text = context.render(&spec.pod)?;
    let pod = manifest::parse_value(&text).map_err(|error| {
        context.fatal(
            "ResourceUnmarshalError",
            &format!("failed to unmarshall pipe pod: {error}"),
        )
    })?;
    let name = artifact_name(&context.metadata, "pipepod");
    let pod = pipe_pod(pod, &spec.pipe, &name);
    let pod = pod.map_err(|error| context.fatal("ResourceValidationError", &error))?;
    let pods = context.enhance(vec![pod], UnknownKinds::Fail).await?;
    if !is_free_of_old_pods(context, &pods).await? {
        return Ok(false);
    }
    let applied = apply::apply(context, &pods).await?;
    if applied.iter().any(|pod| health(pod) != Health::Healthy) {
        return Ok(false);
    }
    let mut files = BTreeMap::new();
    for pipe in &spec.pipe {
        let file = source(pipe);
        files.insert(file.to_owned(), read_file(context, &name, file).await?);
    }
    let artifacts = spec
        .pipe
        .iter()
        .map(|pipe| artifact(&context.metadata, pipe, &files))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| context.fatal("PipeTaskError", &error))?;
    let artifacts = context.enhance(artifacts, UnknownKinds::Fail).await?;
    apply::apply(context, &artifacts).await?;
    delete::delete(context, &pods).await?;
    Ok(true)
}

/// Checks the files of a task.
pub(super) fn check(pipes: &[PipeSpec]) -> Result<(), String> {
    if pipes.is_empty() {
        return Err("task validation error: pipe task has an empty pipe files list".to_owned());
    }
    for pipe in pipes {
        let text = format!("{{{} {} {} {}}}", pipe.file, pipe.env_file, pipe.kind, pipe.key);
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if pipe.file.is_empty() == pipe.env_file.is_empty() {
            return Err(format!(
                "task validation error: pipe file {text} must have either 'file' or 'envFile' field set but not both"
            ));
        }
        if pipe.kind != "Secret" && pipe.kind != "ConfigMap" {
            return Err(format!(
                "task validation error: invalid pipe kind (must be Secret or ConfigMap): {text}"
            ));
        }
        if pipe.key.is_empty() || !pipe.key.bytes().all(is_key) {
            return Err(format!(
                "task validation error: invalid pipe key (only letters, numbers and _ and - are allowed): {text}"
            ));
        }
    }
    Ok(())
}

/// The name of the object that has a file.
pub(crate) fn artifact_name(metadata: &TaskMetadata, key: &str) -> String {
    let parts = [
        &metadata.instance,
        &metadata.plan,
        &metadata.phase,
        &metadata.step,
        &metadata.task,
    ];
    let sanitize = |text: &str| -> String {
        let lower = text.to_lowercase();
        lower.chars().filter(char::is_ascii_alphanumeric).collect()
    };
    let mut names: Vec<String> = parts.into_iter().map(|text| sanitize(text)).collect();
    names.push(sanitize(key));
    names.join(".")
}

/// Whether this execution of the plan has stored the files: then the pod has been deleted, and is not created again.
async fn is_done(context: &TaskContext<'_>, pipes: &[PipeSpec]) -> Result<bool, TaskError> {
    for pipe in pipes {
        let reference = json!({
            "apiVersion": "v1",
            "kind": pipe.kind,
            "metadata": {
                "name": artifact_name(&context.metadata, &pipe.key),
                "namespace": context.metadata.namespace,
            },
        });
        let found = context.objects.find(&reference).await?.unwrap_or_default();
        if found["metadata"]["annotations"][labels::PLAN_UID] != context.metadata.plan_uid.as_str() {
            return Ok(false);
        }
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": artifact_name(&context.metadata, "pipepod"),
            "namespace": context.metadata.namespace,
        },
    });
    let pod = context.objects.find(&pod).await?;
    Ok(pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string()))
}

/// Whether there is no pod of an earlier execution of the plan, whose files would be taken for those of this one. A pod stays
/// if its execution has failed; it is deleted here, and waited for.
async fn is_free_of_old_pods(context: &TaskContext<'_>, pods: &[Value]) -> Result<bool, TaskError> {
    for pod in pods {
        let Some(current) = context.objects.find(pod).await? else {
            continue;
        };
        let metadata = &current["metadata"];
        if metadata["deletionTimestamp"].is_string() {
            return Ok(false);
        }
        if metadata["annotations"][labels::PLAN_UID] != context.metadata.plan_uid.as_str() {
            delete::delete(context, std::slice::from_ref(pod)).await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// The pod of the template with the container from which the files are copied.
fn pipe_pod(mut pod: Value, pipes: &[PipeSpec], name: &str) -> Result<Value, String> {
    let spec = &pod["spec"];
    let items = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    if !items("containers").is_empty() {
        return Err(
            "pipe pod should not have containers. pipe artifacts are generated in the init container"
                .to_owned(),
        );
    }
    let init = items("initContainers");
    let [init] = init.as_slice() else {
        return Err("pipe pod should define one init container that generated artifacts defined".to_owned());
    };
    if spec["restartPolicy"]
        .as_str()
        .is_some_and(|policy| !policy.is_empty() && policy != "OnFailure")
    {
        return Err("pipe pod RestartPolicy should be OnFailure".to_owned());
    }
    let mut volumes = items("volumes");
    volumes.retain(|volume| volume["emptyDir"].is_object());
    let [volume] = volumes.as_slice() else {
        let message =
            "pipe pod should define one emptyDir shared volume where the artifacts are temporary stored";
        return Err(message.to_owned());
    };
    let mounts = init["volumeMounts"].as_array().cloned().unwrap_or_default();
    let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]);
    let volume = volume["name"].as_str().unwrap_or_default();
    let path = mount.and_then(|mount| mount["mountPath"].as_str());
    let path = path.ok_or_else(|| format!("pipe pod should save generated artifacts in {volume}"))?;
    for pipe in pipes {
        let file = source(pipe);
        let below = file
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/') && !rest.contains("/."));
        if !below {
            return Err(format!("pipe file {file} should be a child of {path} mount path"));
        }
        let name = file.rsplit('/').next().unwrap_or_default();
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_key) {
            return Err(format!(
                "pipe file name {file} should only contain alphanumeric characters, '.', '_' and '-'"
            ));
        }
    }
    let container = waiter(volume, path);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["annotations"][labels::PIPE_POD] = "true".into();
    pod["spec"]["restartPolicy"] = "OnFailure".into();
    pod["spec"]["containers"] = json!([container]);
    Ok(pod)
}

/// The container from which the files are copied. Without its pull policy, the tag `latest` would be pulled each time.
fn waiter(volume: &str, mount_path: &str) -> Value {
    json!({
        "name": CONTAINER,
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c"],
        "args": ["sleep infinity"],
        "volumeMounts": [{"name": volume, "mountPath": mount_path}],
    })
}

/// The content of a file. A command that fails would fail again: it ends the plan. The size is checked first.
async fn read_file(context: &TaskContext<'_>, pod: &str, file: &str) -> Result<Vec<u8>, TaskError> {
    let size = exec(context, pod, &["stat", "-c", "%s", file]).await?;
    let size = succeeded(&size).and_then(|text| parse_size(file, text));
    size.map_err(|error| context.fatal("PipeTaskError", &error))?;
    let output = exec(context, pod, &["cat", file]).await?;
    let content = succeeded(&output).map(<[u8]>::to_vec);
    content.map_err(|error| context.fatal("PipeTaskError", &error))
}

async fn exec(context: &TaskContext<'_>, pod: &str, command: &[&str]) -> Result<ExecOutput, TaskError> {
    let target = ExecTarget {
        namespace: &context.metadata.namespace,
        pod,
        container: CONTAINER,
    };
    let output = tokio::select! {
        output = context.http.exec(target, command, MAX_OUTPUT_BYTES) => output,
        () = context.clock.sleep(EXEC_TIMEOUT) => {
            Err(Status::timeout(format!("command {command:?} has not ended within {EXEC_TIMEOUT:?}")))
        }
    };
    Ok(output?)
}

fn succeeded(output: &ExecOutput) -> Result<&[u8], String> {
    match output.exit_code {
        0 => Ok(&output.stdout),
        code => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(format!("command failed with exit code {code}: {}", stderr.trim()))
        }
    }
}

fn parse_size(file: &str, output: &[u8]) -> Result<usize, String> {
    let text = String::from_utf8_lossy(output);
    let size = text.trim().parse();
    let size =
        size.map_err(|error| format!("failed to parse the size {text:?} of the file {file}: {error}"))?;
    match size > MAX_FILE_BYTES {
        true => Err(format!(
            "pipe file {file} size {size} exceeds maximum file size of {MAX_FILE_BYTES} bytes"
        )),
        false => Ok(size),
    }
}

fn artifact(
    metadata: &TaskMetadata,
    pipe: &PipeSpec,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Value, String> {
    let file = source(pipe);
    let bytes = files
        .get(file)
        .ok_or_else(|| format!("error opening pipe file {file}"))?;
    let mut artifact = json!({
        "apiVersion": "v1",
        "kind": pipe.kind,
        "metadata": {"name": artifact_name(metadata, &pipe.key)},
    });
    let is_secret = pipe.kind == "Secret";
    if is_secret {
        artifact["type"] = "Opaque".into();
    }
    if !pipe.file.is_empty() {
        let key = file.rsplit('/').next().unwrap_or(file);
        let field = if is_secret { "data" } else { "binaryData" };
        artifact[field] = json!({key: STANDARD.encode(bytes)});
        return Ok(artifact);
    }
    let mut data = serde_json::Map::new();
    for (key, value) in parse_env_file(&String::from_utf8_lossy(bytes))? {
        let value = if is_secret { STANDARD.encode(value) } else { value };
        data.insert(key, value.into());
    }
    artifact["data"] = data.into();
    Ok(artifact)
}

/// The variables of an env file: lines `KEY=value`; comments and empty lines are ignored.
fn parse_env_file(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let is_valid = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
            match !key.is_empty() && key.chars().all(is_valid) {
                true => Ok((key.to_owned(), value.to_owned())),
                false => Err(format!("{key:?} is not a valid key name")),
            }
        })
        .collect()
}

fn source(pipe: &PipeSpec) -> &str {
    match pipe.file.is_empty() {
        true => &pipe.env_file,
        false => &pipe.file,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use setpoint_api::{Clock, SystemClock};
    use setpoint_client::{Http, Patch};
    use setpoint_kuttl::ObjectClient;
    use setpoint_testkit::Cluster;

    use super::*;
    use crate::render::Variables;

    static EMPTY: BTreeMap<String, String> = BTreeMap::new();

    fn pipe(file: &str, env_file: &str, kind: &str) -> PipeSpec {
        let [file, env_file, kind] = [file, env_file, kind].map(str::to_owned);
        PipeSpec {
            file,
            env_file,
            kind,
            key: "cert".to_owned(),
        }
    }

    #[track_caller]
    fn check_pod(pod: &str, expected: Result<(), &str>) {
        let pod = manifest::parse_value(pod).unwrap();
        let outcome = pipe_pod(pod, &[pipe("/tmp/a", "", "Secret")], "p");
        assert_eq!(outcome.as_ref().map(drop).map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn the_pod_writes_its_files_to_a_shared_volume() {
        let init = "initContainers: [{name: i, volumeMounts: [{name: v, mountPath: /tmp}]}]";
        check_pod(
            &format!("{{spec: {{volumes: [{{name: v, emptyDir: {{}}}}], {init}}}}}"),
            Ok(()),
        );
        check_pod(
            &format!("{{spec: {{{init}}}}}"),
            Err("pipe pod should define one emptyDir shared volume where the artifacts are temporary stored"),
        );
        check_pod(
            "{spec: {containers: [{name: a}]}}",
            Err("pipe pod should not have containers. pipe artifacts are generated in the init container"),
        );
    }

    /// TO7
    #[test]
    fn a_file_that_is_missing_or_too_large_is_an_error() {
        let output = |exit_code: i32, stdout: &str, stderr: &str| ExecOutput {
            stdout: stdout.into(),
            stderr: stderr.into(),
            exit_code,
        };
        let size = |output: ExecOutput| succeeded(&output).and_then(|text| parse_size("/tmp/a", text));
        assert_eq!(size(output(0, "5\r\n", "")), Ok(5));
        assert_eq!(
            size(output(1, "", "stat: can't stat '/tmp/a'\n")),
            Err("command failed with exit code 1: stat: can't stat '/tmp/a'".to_owned())
        );
        assert_eq!(
            size(output(0, "1048577", "")),
            Err("pipe file /tmp/a size 1048577 exceeds maximum file size of 1048576 bytes".to_owned())
        );
    }

    /// TO7
    #[test]
    fn a_file_is_an_entry_of_its_artifact() {
        let metadata = TaskMetadata {
            instance: "My-DB".to_owned(),
            plan: "deploy".to_owned(),
            phase: "p".to_owned(),
            step: "s".to_owned(),
            task: "t".to_owned(),
            ..TaskMetadata::default()
        };
        let files = [("/tmp/a".to_owned(), b"K=v\n#x\n".to_vec())].into();
        let secret = artifact(&metadata, &pipe("/tmp/a", "", "Secret"), &files).unwrap();
        assert_eq!(secret["metadata"]["name"], "mydb.deploy.p.s.t.cert");
        assert_eq!(secret["data"], json!({"a": "Sz12CiN4Cg=="}));
        let map = artifact(&metadata, &pipe("", "/tmp/a", "ConfigMap"), &files).unwrap();
        assert_eq!(map["data"], json!({"K": "v"}));
    }

    /// The pod of an execution that failed has files of that execution.
    #[tokio::test]
    async fn a_pod_of_an_earlier_execution_is_deleted_first() {
        let cluster = Cluster::start().await;
        let server = cluster.serve_https().await;
        let http = Http::new(&server.connection()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let objects = ObjectClient::new(http.clone(), clock.clone());
        let context = |plan_uid: &str| TaskContext {
            objects: &objects,
            http: &http,
            clock: &*clock,
            metadata: TaskMetadata {
                namespace: "default".to_owned(),
                plan_uid: plan_uid.to_owned(),
                ..TaskMetadata::default()
            },
            templates: &EMPTY,
            variables: Variables::default(),
        };
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "annotations": {labels::PLAN_UID: "one"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        objects.create(&pod).await.unwrap();
        let pods = [pod];
        assert_eq!(is_free_of_old_pods(&context("one"), &pods).await, Ok(true));
        assert_eq!(is_free_of_old_pods(&context("two"), &pods).await, Ok(false));
        // No garbage collector runs here: the pod is terminating until it has looked for dependents.
        let found = objects.find(&pods[0]).await.unwrap().unwrap();
        assert!(found["metadata"]["deletionTimestamp"].is_string(), "{found}");
        assert_eq!(is_free_of_old_pods(&context("two"), &pods).await, Ok(false));
        let finished = Patch::merge(&json!({"metadata": {"finalizers": null}})).unwrap();
        objects.patch(&pods[0], &finished).await.unwrap();
        assert_eq!(is_free_of_old_pods(&context("two"), &pods).await, Ok(true));
    }
}
