//! Pipe: runs a pod whose init container writes files, and stores the files in Secrets and ConfigMaps.
//!
//! The engine adds a container that prints the files in base64 once the init container is done, and reads its log. Upstream
//! copies them with exec; the log needs no streaming protocol, and fewer permissions.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use setpoint_kuttl::manifest;

use super::{TaskContext, TaskError, TaskResult, UnknownKinds, apply, delete};
use crate::api::{PipeSpec, TaskSpec, labels};
use crate::enhance::TaskMetadata;
use crate::health::{Health, health};

/// The container that prints the files.
const CONTAINER: &str = "waiter";
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Marks the end of the output, after which the log is complete.
const END: &str = "--- end";

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
    let applied = apply::apply(context, &pods).await?;
    if applied.iter().any(|pod| health(pod) != Health::Healthy) {
        return Ok(false);
    }
    let Some(files) = read_files(context, &name).await? else {
        return Ok(false);
    };
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

/// The pod of the template with the container that prints the files.
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
        if !below || file.contains(['\'', '\n']) {
            return Err(format!("pipe file {file} should be a child of {path} mount path"));
        }
    }
    let container = json!({
        "name": CONTAINER,
        "image": "busybox",
        "command": ["/bin/sh", "-c"],
        "args": [script(pipes)],
        "volumeMounts": [{"name": volume, "mountPath": path}],
    });
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["annotations"][labels::PIPE_POD] = "true".into();
    pod["spec"]["restartPolicy"] = "OnFailure".into();
    pod["spec"]["containers"] = json!([container]);
    Ok(pod)
}

/// Prints each file after a line with its path.
fn script(pipes: &[PipeSpec]) -> String {
    let print = |pipe: &PipeSpec| {
        format!(
            "echo '--- {0}'; base64 '{0}' || echo '--- missing'; ",
            source(pipe)
        )
    };
    let prints: String = pipes.iter().map(print).collect();
    format!("{prints}echo '{END}'; sleep infinity")
}

/// The files in the log of the pod; `None` until the log is complete.
async fn read_files(
    context: &TaskContext<'_>,
    pod: &str,
) -> Result<Option<BTreeMap<String, Vec<u8>>>, TaskError> {
    let namespace = &context.metadata.namespace;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={CONTAINER}");
    let log = context.http.get(&path).await?;
    let files = parse_log(&String::from_utf8_lossy(&log));
    files.map_err(|error| context.fatal("PipeTaskError", &error))
}

fn parse_log(log: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in log.lines() {
        match line.strip_prefix("--- ") {
            Some("end") => {
                let decode = |(file, text): (String, String)| decode(&file, &text).map(|bytes| (file, bytes));
                return texts.into_iter().map(decode).collect::<Result<_, _>>().map(Some);
            }
            Some("missing") => return Err(format!("pipe file {current} does not exist")),
            Some(file) => {
                file.clone_into(&mut current);
                texts.entry(current.clone()).or_default();
            }
            None => texts.entry(current.clone()).or_default().push_str(line.trim()),
        }
    }
    Ok(None)
}

fn decode(file: &str, text: &str) -> Result<Vec<u8>, String> {
    let bytes = STANDARD.decode(text);
    let bytes = bytes.map_err(|error| format!("pipe file {file} cannot be read: {error}"))?;
    match bytes.len() > MAX_FILE_BYTES {
        true => Err(format!(
            "pipe file {file} size {} exceeds maximum file size of {MAX_FILE_BYTES} bytes",
            bytes.len()
        )),
        false => Ok(bytes),
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
    use super::*;

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
    fn files_are_read_from_a_complete_log() {
        assert_eq!(parse_log("--- /tmp/a\naGVs\nbG8=\n"), Ok(None));
        let files = parse_log("--- /tmp/a\naGVs\nbG8=\n--- end\n").unwrap().unwrap();
        assert_eq!(files["/tmp/a"], b"hello");
        let missing = parse_log("--- /tmp/a\n--- missing\n--- end\n");
        assert_eq!(missing, Err("pipe file /tmp/a does not exist".to_owned()));
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
}
