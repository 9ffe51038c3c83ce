// A web page's flags: what a test calls in the browser.
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";
import { OpenFeature } from "@openfeature/web-sdk";

window.connect = async (baseUrl, key, context, cacheMode = "disabled") => {
  const requests = [];
  const fetchImplementation = async (request, options) => {
    const response = await fetch(request, options);
    requests.push(response.status);
    return response;
  };
  const headers = key ? [["X-API-Key", key]] : [];
  await OpenFeature.setContext(context);
  await OpenFeature.setProviderAndWait(new OFREPWebProvider({ baseUrl, headers, cacheMode, fetchImplementation }));
  window.requests = requests;
};

window.evaluate = (flag, fallback) => {
  const kind = typeof fallback;
  return OpenFeature.getClient()[`get${kind[0].toUpperCase()}${kind.slice(1)}Details`](flag, fallback);
};

window.setContext = (context) => OpenFeature.setContext(context);
