//! Runs of hooks for reviews. They are in no queue: the API server waits for the response.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::binding_context::{BindingContext, Cause};
use crate::config::BindingOptions;
use crate::hook::Hook;
use crate::queue::HookRun;
use crate::webhook::{
    AdmissionResponse, AdmissionWebhook, ConversionChain, ConversionReview, HookResponses, Review,
};

/// The type of conversion bindings.
const CONVERSION: &str = "kubernetesCustomResourceConversion";

impl Shared {
    /// The response to an AdmissionReview: what the hook has written, or that it failed. An error is for the sender.
    pub(crate) async fn admit(
        &self,
        webhook: &AdmissionWebhook,
        body: &[u8],
        stop: &CancellationToken,
    ) -> Result<Vec<u8>, String> {
        let review = Review::parse(body)?;
        let cause = Cause::Admission {
            admission_type: webhook.admission_type,
            request: review.request.clone(),
        };
        let run = run_of(
            webhook.admission_type.binding_type(),
            &webhook.binding().options,
            cause,
        );
        match self.run_for_review(&webhook.hook, &run, stop).await {
            Ok(HookResponses {
                admission: Some(response),
                ..
            }) => {
                tracing::info!(hook = webhook.hook.name, ?response, "AdmissionResponse from hook");
                review.respond(&response)
            }
            Ok(_) => review.fail("handle AdmissionReview: hook task prop error"),
            Err(_) => review.respond(&AdmissionResponse {
                message: Some("Hook failed".to_owned()),
                ..AdmissionResponse::default()
            }),
        }
    }

    /// The response to a ConversionReview. An error is for the sender.
    pub(crate) async fn convert(
        &self,
        chain: &ConversionChain,
        body: &[u8],
        stop: &CancellationToken,
    ) -> Result<Vec<u8>, String> {
        let mut review = ConversionReview::parse(body)?;
        let outcome = self.convert_objects(chain, &mut review, stop).await;
        match &outcome {
            Ok(objects) => review.respond(Ok(objects)),
            Err(message) => {
                tracing::error!(crd = chain.crd_name, error = message, "conversion failed");
                review.respond(Err(message))
            }
        }
    }

    /// Runs the hooks of the path from each version of the objects until all have the requested one.
    async fn convert_objects(
        &self,
        chain: &ConversionChain,
        review: &mut ConversionReview,
        stop: &CancellationToken,
    ) -> Result<Vec<Box<RawValue>>, String> {
        let request = &mut review.request;
        let desired = request.desired_version.clone();
        let count = request.objects.len();
        for version in request.versions() {
            for step in chain.path(&version, &desired) {
                let cause = Cause::Conversion {
                    from_version: step.rule.from_version.clone(),
                    to_version: step.rule.to_version.clone(),
                    request: request.to_json()?,
                };
                let run = run_of(CONVERSION, &step.binding().options, cause);
                let responses = self.run_for_review(&step.hook, &run, stop).await;
                let responses = responses.map_err(|_| format!("Hook failed to convert to {desired}"))?;
                let response = responses.conversion;
                let response = response.ok_or("handle ConversionReview: hook task prop error")?;
                if let Some(message) = response.failed_message.filter(|message| !message.is_empty()) {
                    return Err(message);
                }
                request.objects = response.converted_objects.unwrap_or_default();
                if request.objects.len() != count {
                    let returned = request.objects.len();
                    return Err(format!("hook returned {returned} objects instead of {count}"));
                }
                if request.versions() == [desired.as_str()] {
                    return Ok(std::mem::take(&mut request.objects));
                }
            }
        }
        Err(format!(
            "Conversion {} to {desired} was not successful",
            chain.crd_name
        ))
    }

    /// Runs a hook as soon as its rate allows it.
    async fn run_for_review(
        &self,
        hook: &Arc<Hook>,
        run: &HookRun,
        stop: &CancellationToken,
    ) -> Result<HookResponses, String> {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err("the operator stops".to_owned()),
            () = hook.rate.wait() => {}
        }
        let labels = self.labels(hook, run, "");
        labels.info("Execute hook");
        let result = self.execute_measured(hook, run, &labels, stop).await;
        match &result {
            Ok(_) => labels.info("Hook executed successfully"),
            Err(error) => labels.error("Hook failed.", error, 1),
        }
        result
    }
}

fn run_of(binding_type: &'static str, options: &BindingOptions, cause: Cause) -> HookRun {
    HookRun {
        binding_type,
        binding: options.name.clone(),
        contexts: vec![BindingContext::new(options, cause)],
        allow_failure: false,
        monitors: Vec::new(),
        execute_on_synchronization: true,
    }
}
