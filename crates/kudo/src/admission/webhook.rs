//! The mutating webhook of Instances.

use setpoint_api::Status;
use setpoint_client::Client;
use setpoint_runtime::webhook::{AdmissionRequest, Operation, Webhooks};
use uuid::Uuid;

use super::{admit_create, admit_update};
use crate::api::{Instance, OperatorVersion};

/// The path of the webhook.
pub(crate) const PATH: &str = "/admit-kudo-dev-v1beta1-instance";

/// The webhook. It reads OperatorVersions with this client.
pub(crate) fn webhooks(client: Client) -> Webhooks {
    Webhooks::new().mutates::<Instance, _>(PATH, move |request| {
        let client = client.clone();
        async move { admit(&client, request).await }
    })
}

async fn admit(client: &Client, request: AdmissionRequest<Instance>) -> Result<Instance, Status> {
    let Some(mut new) = request.object else {
        return Err(Status::bad_request("there is no object to decode"));
    };
    // The namespace of a submitted object may be blank.
    let namespace = new.metadata.namespace.replace(request.namespace);
    let uid = Uuid::new_v4().to_string();
    let outcome = match (request.operation, request.old) {
        (Operation::Create, _) => {
            let version = operator_version(client, &new).await?;
            admit_create(&mut new, &version, uid)
        }
        (Operation::Update, Some(old)) if old.spec != new.spec || old.status != new.status => {
            let version = operator_version(client, &new).await?;
            let old_version = match old.spec.operator_version == new.spec.operator_version {
                true => version.clone(),
                false => operator_version(client, &old).await?,
            };
            admit_update(&old, &mut new, (&old_version, &version), uid)
        }
        _ => Ok(()),
    };
    new.metadata.namespace = namespace;
    outcome.map(|()| new).map_err(denied)
}

async fn operator_version(client: &Client, instance: &Instance) -> Result<OperatorVersion, Status> {
    let versions = client.namespaced::<OperatorVersion>(instance.operator_version_namespace());
    let found = versions.get(instance.operator_version_name()).await;
    let found = found.map_err(|status| Status::internal(status.message))?;
    found.to_owned().map_err(Status::internal)
}

/// The response to a rejected change.
fn denied(message: String) -> Status {
    Status {
        status: "Failure".to_owned(),
        reason: "Forbidden".to_owned(),
        code: 403,
        message,
        ..Status::default()
    }
}
