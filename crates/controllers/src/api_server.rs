//! Controllers that belong to the API server itself.

use crate::descriptors::ControllerDescriptor;
use crate::{api_service, cluster_authentication_trust, flow_schema, serviceaccount_tokens};

/// The controllers that publish the API server's own state. They run regardless of `--controllers`.
pub fn api_server_controllers() -> [ControllerDescriptor; 5] {
    [
        ControllerDescriptor::new(
            serviceaccount_tokens::legacy_token_tracking::NAME,
            serviceaccount_tokens::legacy_token_tracking::run,
        ),
        ControllerDescriptor::new(
            cluster_authentication_trust::NAME,
            cluster_authentication_trust::run,
        )
        .uses_certificates(),
        ControllerDescriptor::new(api_service::NAME, api_service::run),
        ControllerDescriptor::new(api_service::registration::NAME, api_service::registration::run),
        ControllerDescriptor::new(flow_schema::NAME, |context, _, stop| {
            flow_schema::run(context, stop)
        }),
    ]
    .map(ControllerDescriptor::of_api_server)
}
