//! Fills in token Secrets, and keeps ServiceAccounts and Secrets consistent: a Secret is deleted with its
//! ServiceAccount, and a ServiceAccount does not reference a deleted Secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Map, Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::serviceaccount_tokens::secret::{
    ACCOUNT_NAME, ACCOUNT_UID, Account, MissingFields, TokenSecret, is_token,
};
use crate::serviceaccount_tokens::{LegacyTokenSpec, TokenGenerator};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "serviceaccount-token-controller";

/// Runs the controller until stopped. Without a token generator it has nothing to do.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let Some(tokens) = config.token_generator.clone() else {
        stop.cancelled().await;
        return Ok(());
    };
    let reconciler = TokenController {
        secrets: context.lister()?,
        accounts: context.lister()?,
        root_ca: config.root_ca.clone(),
        tokens,
    };
    let secrets = reconciler.secrets.clone();
    Controller::<SecretItem>::new(NAME, reconciler)
        .watches(Secret::resource().group_resource(), |change| {
            Vec::from_iter(item_of(change.object()))
        })
        .watches(ServiceAccount::resource().group_resource(), move |change| {
            secrets_of_deleted_account(&secrets, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// A token Secret and the name of its ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SecretItem {
    secret: Key,
    account: String,
}

/// The reconciler.
#[derive(Debug)]
struct TokenController {
    secrets: Lister<Secret>,
    accounts: Lister<ServiceAccount>,
    root_ca: String,
    tokens: TokenGenerator,
}

fn item_of(object: &Stored) -> Option<SecretItem> {
    if !is_token(object) {
        return None;
    }
    let secret: TokenSecret = object.decode().ok()?;
    let account = secret.account().to_owned();
    (!account.is_empty()).then(|| SecretItem {
        secret: object.key().clone(),
        account,
    })
}

/// The token Secrets of a deleted ServiceAccount.
fn secrets_of_deleted_account(secrets: &Lister<Secret>, change: &Change) -> Vec<SecretItem> {
    if !change.is_deletion() {
        return Vec::new();
    }
    let all = secrets.in_namespace(change.key().namespace());
    let items = all.iter().filter_map(|secret| item_of(secret));
    items.filter(|item| item.account == change.key().name()).collect()
}

impl Reconcile<SecretItem> for TokenController {
    async fn reconcile(&self, item: &SecretItem, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.secrets.find(&item.secret) else {
            self.remove_reference(client, item).await?;
            return Ok(Next::Done);
        };
        let secret: TokenSecret = object.decode()?;
        if secret.account() != item.account {
            return Ok(Next::Done);
        }
        match self.account(client, item).await? {
            Some(account) if secret.is_of(account.uid()) => {
                self.fill(client, &object, &secret, &account).await?
            }
            _ => delete(client, &object).await?,
        }
        Ok(Next::Done)
    }
}

impl TokenController {
    /// The ServiceAccount, from the API server if the cache lacks it: a Secret must not be deleted because its
    /// ServiceAccount is new.
    async fn account(
        &self,
        client: &Client,
        item: &SecretItem,
    ) -> Result<Option<TypedObject<ServiceAccount>>, Error> {
        let namespace = item.secret.namespace();
        if let Some(account) = self.accounts.find(&Key::new(namespace, &item.account)) {
            return Ok(Some(account));
        }
        let handle = client.namespaced::<ServiceAccount>(namespace);
        match handle.get(&item.account).await {
            Err(status) if status.is_not_found() => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    async fn fill(
        &self,
        client: &Client,
        object: &Stored,
        secret: &TokenSecret,
        account: &Stored,
    ) -> Result<(), Error> {
        let missing_fields = secret.missing_fields(&self.root_ca);
        if missing_fields == MissingFields::NOTHING {
            return Ok(());
        }
        let (namespace, name) = (object.key().namespace(), object.key().name());
        let mut data = Map::new();
        let mut put =
            |key: &str, value: &str| data.insert(key.to_owned(), Value::from(STANDARD.encode(value)));
        if missing_fields.certificates {
            put("ca.crt", &self.root_ca);
        }
        if missing_fields.namespace {
            put("namespace", namespace);
        }
        if missing_fields.token {
            let spec = LegacyTokenSpec {
                namespace,
                secret: name,
                account: account.key().name(),
                account_uid: account.uid(),
            };
            put("token", &self.tokens.generate(spec).map_err(Error::failed)?);
        }
        let annotations = json!({ACCOUNT_NAME: account.key().name(), ACCOUNT_UID: account.uid()});
        let version = object.resource_version().to_string();
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        let patch = Patch::merge(&json!({"metadata": metadata, "data": data}))?;
        let handle = client.dynamic(Secret::resource(), namespace);
        match handle.patch(name, &patch).await {
            // The concurrent change enqueues the Secret again.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    /// Removes the reference to a deleted Secret from its ServiceAccount.
    async fn remove_reference(&self, client: &Client, item: &SecretItem) -> Result<(), Error> {
        let key = Key::new(item.secret.namespace(), &item.account);
        let Some(account) = self.accounts.find(&key) else {
            return Ok(());
        };
        if !account.decode::<Account>()?.names(item.secret.name()) {
            return Ok(());
        }
        let mut body: Value = account.decode()?;
        if let Some(secrets) = body["secrets"].as_array_mut() {
            secrets.retain(|secret| secret["name"] != item.secret.name());
        }
        let handle = client.dynamic(ServiceAccount::resource(), key.namespace());
        match handle.update(key.name(), body.to_string()).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

async fn delete(client: &Client, object: &Stored) -> Result<(), Error> {
    let options = DeleteOptions::with_uid(object.uid());
    let handle = client.dynamic(Secret::resource(), object.key().namespace());
    match handle.delete(object.key().name(), options).await {
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::Cluster;
    use tokio::task::JoinSet;

    use super::*;

    async fn start_controller() -> (Cluster, JoinSet<Result<(), Error>>) {
        let cluster = Cluster::start().await;
        let config = Config {
            token_generator: Some(TokenGenerator::new(|spec| {
                Ok(format!("token of {}", spec.account_uid))
            })),
            root_ca: "certificates".to_owned(),
            ..Config::default()
        };
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        (cluster, running)
    }

    async fn create(cluster: &Cluster, secret: &str, account: &str) {
        let body = json!({
            "metadata": {"name": secret, "namespace": "default", "annotations": {ACCOUNT_NAME: account}},
            "type": "kubernetes.io/service-account-token",
        });
        let handle = cluster.client("test").dynamic(Secret::resource(), "default");
        handle.create(body.to_string()).await.unwrap();
    }

    fn token(cluster: &Cluster) -> Option<String> {
        let secret: Option<Secret> = cluster.find("robot-token");
        let token = secret?.data?.remove("token")?;
        String::from_utf8(token.0).ok()
    }

    #[tokio::test]
    async fn a_secret_gets_its_token_and_is_deleted_with_its_account() {
        let (cluster, _running) = start_controller().await;
        let accounts = cluster.client("test").namespaced::<ServiceAccount>("default");
        let account = json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}]});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        let account = accounts.create(&account).await.unwrap();
        create(&cluster, "robot-token", "robot").await;
        cluster.until("a token", |cluster| token(cluster).is_some()).await;
        assert_eq!(token(&cluster), Some(format!("token of {}", account.uid())));
        let secret: Secret = cluster.find("robot-token").unwrap();
        let keys: Vec<String> = secret.data.unwrap().into_keys().collect();
        assert_eq!(keys, ["ca.crt", "namespace", "token"]);
        assert_eq!(secret.metadata.annotations.unwrap()[ACCOUNT_UID], account.uid());
        accounts.delete("robot", DeleteOptions::default()).await.unwrap();
        cluster
            .until("no secret", |cluster| cluster.list::<Secret>().is_empty())
            .await;
    }

    #[tokio::test]
    async fn a_secret_without_an_account_is_deleted_and_an_account_drops_a_deleted_secret() {
        let (cluster, _running) = start_controller().await;
        create(&cluster, "lost", "nobody").await;
        cluster
            .until("no secret", |cluster| cluster.list::<Secret>().is_empty())
            .await;
        let accounts = cluster.client("test").namespaced::<ServiceAccount>("default");
        let account =
            json!({"metadata": {"name": "robot"}, "secrets": [{"name": "robot-token"}, {"name": "other"}]});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        accounts.create(&account).await.unwrap();
        create(&cluster, "robot-token", "robot").await;
        cluster.until("a token", |cluster| token(cluster).is_some()).await;
        let secrets = cluster.client("test").namespaced::<Secret>("default");
        secrets
            .delete("robot-token", DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("one secret named", |cluster| {
                let robot: ServiceAccount = cluster.find("robot").unwrap();
                robot.secrets.is_some_and(|secrets| secrets.len() == 1)
            })
            .await;
    }
}
