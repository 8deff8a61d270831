#!/usr/bin/env python3
"""Tools for the model: `weather` answers or fails, `weather_tools` brings out `forecast`, which is deferred.

The weather is made up: the point is the frames.
"""

import json
import sys

WEATHER = {"berlin": "16°C, fog", "lisbon": "24°C, sun", "oslo": "3°C, sleet"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def send(**frame):
    print(json.dumps(frame), flush=True)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def weather(args):
    city = str(args.get("city", ""))
    if city.lower() in WEATHER:
        return text(f"{city}: {WEATHER[city.lower()]}")
    # An error is an answer too: the model reads it and can do better.
    return text(f"no weather for {city!r}; known: {', '.join(WEATHER)}", is_error=True)


def forecast(args):
    return text(f"Tomorrow in {args.get('city')}: much the same, then rain.")


def weather_tools(_args):
    return text("forecast is available now", activate_tools=["forecast"])


TOOLS = {
    "weather": (weather, "Current weather for a city.", CITY),
    "forecast": (forecast, "Tomorrow's weather for a city.", CITY),
    "weather_tools": (weather_tools, "Makes more weather tools available: forecast.", {"type": "object"}),
}

send(type="hello", name="weather", version="1.0.0", capabilities=["tools"])

for line in sys.stdin:
    frame = json.loads(line)
    match frame["type"]:
        case "hello_ack":
            for name, (_, description, schema) in TOOLS.items():
                # A deferred tool costs no tokens until some result activates it.
                later = {"deferred": True} if name == "forecast" else {}
                send(type="register_tool", name=name, description=description, schema=schema, **later)
            send(type="ready")
        case "tool_call":
            run, *_ = TOOLS[frame["name"]]
            send(type="tool_result", id=frame["id"], **run(frame["args"]))
        case "shutdown":
            send(type="shutdown_ack")
            break
