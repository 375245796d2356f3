//! Registration of webhooks: webhook configurations, and the conversion of CRDs.

use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use setpoint_api::options::ListOptions;
use setpoint_api::{Gvr, Status};
use setpoint_client::DynamicApi;
use tokio_util::sync::CancellationToken;

use super::AdmissionWebhook;
use crate::binding_context::AdmissionType;
use crate::operator::{Error, Shared};

/// How often the registration of a webhook configuration is retried.
const MAX_RETRIES: u32 = 5;
/// The delay before the first retry. It doubles from retry to retry.
const FIRST_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_secs(15);
/// How often a CRD is looked for that does not exist yet.
const CRD_DELAY: Duration = Duration::from_secs(15);
/// The suffix of the names of webhook configurations.
const CONFIGURATION_SUFFIX: &str = "hooks";

/// Creates or updates the webhook configurations. After some retries, a failure ends the operator: without them the API
/// server would not call the hooks.
pub(super) async fn register_admission(
    shared: &Shared,
    webhooks: &[AdmissionWebhook],
    authority: &[u8],
    stop: &CancellationToken,
) -> Result<(), Error> {
    for admission_type in [AdmissionType::Validating, AdmissionType::Mutating] {
        let of_type = webhooks
            .iter()
            .filter(|webhook| webhook.admission_type == admission_type);
        let list: Vec<Value> = of_type
            .map(|webhook| webhook_json(shared, webhook, authority))
            .collect();
        if list.is_empty() {
            continue;
        }
        let mut delay = FIRST_DELAY;
        let mut retries = 0;
        while let Err(status) = submit(shared, admission_type, &list).await {
            let kind = admission_type.configuration_kind();
            if retries == MAX_RETRIES {
                return Err(Error::Failed(format!("register {kind}: {}", status.message)));
            }
            tracing::warn!(
                kind,
                error = status.message,
                "cannot register webhooks: retry after {delay:?}"
            );
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = shared.clock().sleep(delay) => {}
            }
            retries += 1;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }
    Ok(())
}

/// Sets the conversion of CRDs. One that does not exist yet is waited for.
pub(super) async fn register_conversions(
    shared: &Shared,
    crd_names: &[String],
    authority: &[u8],
    stop: &CancellationToken,
) -> Result<(), Error> {
    let resource = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let crds = shared.client().dynamic(resource, "");
    let mut missing: Vec<&String> = crd_names.iter().collect();
    while !missing.is_empty() {
        let mut failed = Vec::new();
        for name in missing {
            match set_conversion(shared, &crds, name, authority).await {
                Ok(()) => tracing::info!(crd = name, "conversion webhook is registered"),
                Err(status) => {
                    tracing::warn!(
                        crd = name,
                        error = status.message,
                        "cannot register the conversion webhook yet"
                    );
                    failed.push(name);
                }
            }
        }
        missing = failed;
        if !missing.is_empty() {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = shared.clock().sleep(CRD_DELAY) => {}
            }
        }
    }
    Ok(())
}

/// Creates the configuration, or replaces the webhooks of the one that exists.
async fn submit(shared: &Shared, admission_type: AdmissionType, webhooks: &[Value]) -> Result<(), Status> {
    let group = "admissionregistration.k8s.io";
    let resource = Gvr::new(group, "v1", admission_type.configuration_resource());
    let api = shared.client().dynamic(resource, "");
    let prefix = &shared.options.webhooks.configuration_name;
    let name = format!("{prefix}-{CONFIGURATION_SUFFIX}");
    let stored = find(&api, &name).await?;
    let is_new = stored.is_none();
    let mut object = stored.unwrap_or_else(|| json!({"metadata": {"name": name}}));
    object["apiVersion"] = format!("{group}/v1").into();
    object["kind"] = admission_type.configuration_kind().into();
    object["webhooks"] = json!(webhooks);
    tracing::info!(
        name,
        kind = admission_type.configuration_kind(),
        "register webhooks"
    );
    match is_new {
        true => api.create(object.to_string()).await?,
        false => api.update(&name, object.to_string()).await?,
    };
    Ok(())
}

async fn set_conversion(
    shared: &Shared,
    crds: &DynamicApi,
    name: &str,
    authority: &[u8],
) -> Result<(), Status> {
    let mut crd = find(crds, name).await?.ok_or_else(|| {
        Status::bad_request(format!("the CustomResourceDefinition {name:?} does not exist"))
    })?;
    let options = &shared.options.webhooks;
    let service = json!({
        "namespace": options.namespace, "name": options.conversion.service, "path": format!("/{name}"),
    });
    crd["apiVersion"] = "apiextensions.k8s.io/v1".into();
    crd["kind"] = "CustomResourceDefinition".into();
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": service, "caBundle": ByteString(authority.to_vec())},
            "conversionReviewVersions": ["v1", "v1beta1"],
        },
    });
    crds.update(name, crd.to_string()).await?;
    Ok(())
}

/// The object with this name. It is listed, since roles for upstream need not permit to get it.
async fn find(api: &DynamicApi, name: &str) -> Result<Option<Value>, Status> {
    let fields = format!("metadata.name={name}").parse();
    let options = ListOptions {
        fields: fields.map_err(|error| Status::bad_request(format!("invalid name {name:?}: {error}")))?,
        ..ListOptions::default()
    };
    let list = api.list(&options).await?;
    let object = list
        .items
        .first()
        .map(|stored| serde_json::from_slice(stored.json()));
    let object = object.transpose();
    object.map_err(|error| Status::internal(format_args!("cannot decode {name:?}: {error}")))
}

fn webhook_json(shared: &Shared, webhook: &AdmissionWebhook, authority: &[u8]) -> Value {
    let options = &shared.options.webhooks;
    let mut json = json!(webhook.binding().webhook);
    let service = json!({
        "namespace": options.namespace, "name": options.admission.service, "path": webhook.path,
    });
    json["clientConfig"] = json!({"service": service, "caBundle": ByteString(authority.to_vec())});
    if json["failurePolicy"].is_null() {
        json["failurePolicy"] = options.failure_policy.as_str().into();
    }
    json
}
